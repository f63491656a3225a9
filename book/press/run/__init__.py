"""Everything that runs for the book: notebooks and tests. What of them need not run again is asked of `reuse`.

Notebooks: `schedule` chooses what runs and when · `job` is one notebook on its way · `worker` is the process that
executes it · `outputs` makes an executed notebook fit for a page · `figure_data` keeps what figures plot.
Processes: `processes` measures and ends their trees · `child` runs one of a race, a study or a rehearsal to its end.
Tests: `suite` runs them and notes what each slice's took.
`threads` names what either asks of libraries' threads.
`calibration` says how fast the machine is beside a run of either: it times `fixed_work`; `conditions` says that and
what else the machine was like (other work, steal, what a second thread gains) beside a notebook, a race or a study.
"""

from .schedule import TIMEOUT_SECONDS, Options, report, run

__all__ = ["TIMEOUT_SECONDS", "Options", "report", "run"]
