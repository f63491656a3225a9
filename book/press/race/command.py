"""The command `press race`."""

import argparse


def options(made: argparse.ArgumentParser) -> None:
    """None; adds what `press race` takes."""
    made.add_argument("chapters", nargs="+", metavar="CHAPTER", help="part/chapter, part or stem")
    made.add_argument(
        "--rounds", type=int, metavar="N", help="interleaved (default: the bench's own choice, mostly 20)"
    )
    made.add_argument("--threads", type=int, metavar="N", help="default: the bench's own choice")
    made.add_argument(
        "--timeout", type=float, default=3600, metavar="S", help="seconds for each bench (default: %(default)s)"
    )
    made.add_argument("--loaded", action="store_true", help="race although other work runs")
    made.add_argument("--bench", metavar="NAME", help="only this one, such as ctc for ctc/bench_ctc.py (default: all)")


def race(given: argparse.Namespace) -> int:
    """The exit status of `press race`."""
    from ..repository import Repository
    from . import Options
    from . import race as raced

    own = Options(given.rounds, given.threads, given.loaded, given.timeout, given.bench)
    return raced(Repository(given.root), given.chapters, own)
