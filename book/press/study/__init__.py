"""Studies: `running` runs what a chapter declares (`helpers.study`) and records it, `worker` is its process,
`recording` what surrounds it. A chapter's test takes `hold` from here, and nothing else of the press."""

from .running import Seen, hold, record, run

__all__ = ["Seen", "hold", "record", "run"]
