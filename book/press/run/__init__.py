"""Everything that runs for the book: notebooks and tests. What of them need not run again is asked of `reuse`.
Notebooks: `schedule` chooses what runs and when · `job` has one executed and makes it fit for a page · `worker` is the
process that executes it · `figure_data` keeps what figures plot.
Tests: `suite` runs them and notes what each chapter's took.
Processes: `processes` measures and ends their trees · `child` runs one to its end, a notebook's, race's or study's.
`conditions` says what the machine was like beside one, and how fast, by timing `calibration`."""

from .schedule import TIMEOUT_SECONDS, Options, report, run

__all__ = ["TIMEOUT_SECONDS", "Options", "report", "run"]
