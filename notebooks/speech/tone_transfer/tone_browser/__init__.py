"""The browser's side: the decoder as a file, `export`; a page for test and race, `live_site`;
the scripts.
"""

from .export import (
    LivePage,
    Players,
    exported,
    exported_whole,
    filled,
    half_bytes,
    live_files,
    run,
    start_state,
)

__all__ = [
    "LivePage",
    "Players",
    "exported",
    "exported_whole",
    "filled",
    "half_bytes",
    "live_files",
    "run",
    "start_state",
]
