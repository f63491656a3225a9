"""Notebooks executed: which have to run, one process each, and what is kept of them.

`schedule` chooses what runs and when · `cache` knows what a page depends on and keeps it · `job` is one notebook on its
way · `worker` is the process that executes it · `processes` measures and ends process trees · `outputs` makes an
executed notebook fit for a page · `figure_data` keeps what figures plot.
"""

from .schedule import TIMEOUT_SECONDS, Options, report, run

__all__ = ["TIMEOUT_SECONDS", "Options", "report", "run"]
