"""Everything that runs: notebooks, tests, races. What is kept of each, and what need not run again.

Notebooks: `schedule` chooses what runs and when · `job` is one notebook on its way · `worker` is the process that
executes it · `processes` measures and ends process trees · `outputs` makes an executed notebook fit for a page ·
`figure_data` keeps what figures plot.
Reuse: `cache` knows what a page and a slice's tests depend on · `packages` reads imports · `machine` asks what this
machine is · `store` keeps entries outside the clone.
`calibration` says how fast the machine is beside a run · `suite` runs the tests · `race` runs the benches, and `peers`
makes the environments for them.
"""

from .schedule import TIMEOUT_SECONDS, Options, report, run

__all__ = ["TIMEOUT_SECONDS", "Options", "report", "run"]
