"""The commands `press study` and `press study-worker`, which it starts."""

import argparse

TEXT = "what the slices' study_*.py declare, alone on the machine, resumed after a kill; receipts are recorded"


def options(made: argparse.ArgumentParser) -> None:
    """None; adds what `press study` takes."""
    made.add_argument("chapters", nargs="+", metavar="CHAPTER", help="part/chapter, part or stem")
    made.add_argument("--study", metavar="NAME", help="only this one (default: all of the slice)")
    made.add_argument("--trial", action="store_true", help="two seeds at the sizes of `trial`; nothing is recorded")
    made.add_argument("--loaded", action="store_true", help="record although other work runs")


def study(given: argparse.Namespace) -> int:
    """The exit status of `press study`."""
    from ..repository import Repository
    from . import recording

    own = recording.Options(given.study, given.trial, given.loaded)
    return recording.study(Repository(given.root), given.chapters, own)


def worker(commands) -> None:
    """None; adds the command of a study's process, whose options are its own."""
    made = commands.add_parser("study-worker", prefix_chars="\0", add_help=False)
    made.add_argument("arguments", nargs="*")
    made.set_defaults(do=_work)


def _work(given: argparse.Namespace) -> int:
    from .worker import main

    return main(given.arguments)
