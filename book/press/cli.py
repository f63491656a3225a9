"""The command line of the press: a command's words and options stand above the function that does it."""

import argparse
import json
import sys
from pathlib import Path

from . import run
from .errors import PressError
from .files import lock, remove
from .repository import HOME, Repository

COMMANDS = {}  # by name: the function of (repository, options), its words, its options


def main(arguments: list[str] | None = None) -> int:
    """Run one command; the exit status: 0 fine, 1 something failed, 2 wrong use, 130 interrupted."""
    given = parser().parse_args(arguments)
    try:
        return given.do(Repository(given.root), given) or 0
    except PressError as error:
        print(f"press: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("press: interrupted; what was finished is kept, run it again to go on", file=sys.stderr)
        return 130
    except BrokenPipeError:
        return 1


def parser() -> argparse.ArgumentParser:
    """The parser of all commands."""
    top = argparse.ArgumentParser(prog="press", description="Run, check, build and show the book.")
    top.add_argument("--root", type=Path, default=HOME, help="the book's root (default: where the press lives)")
    commands = top.add_subparsers(metavar="COMMAND", required=True)
    for name, (do, text, options) in COMMANDS.items():
        shown = {"help": text, "description": text} if text else {}
        raw = {"prefix_chars": "\0", "add_help": False} if options == (REST,) else {}  # so that options are another's
        made = commands.add_parser(name, **shown, **raw)
        for names, how in options:
            made.add_argument(*names, **how)
        made.set_defaults(do=do)
    return top


def option(*names: str, **how) -> tuple[tuple[str, ...], dict]:
    """An option, or an argument, for the table of commands."""
    return names, how


def command(text: str, *options):
    """Decorator: the command of the function's name; without `text` it is the press's own and no help shows it."""

    def register(do):
        COMMANDS[do.__name__[1:].replace("_", "-")] = do, text, options
        return do

    return register


def seconds(default: float):
    return option("--timeout", type=float, default=default, metavar="S", help="seconds each (default: %(default)s)")


CHAPTERS = option("chapters", nargs="*", metavar="CHAPTER", help="part/chapter, part or stem (default: all)")
SOME = option("chapters", nargs="+", metavar="CHAPTER", help="part/chapter, part or stem")
REST = option("arguments", nargs="*")
LOADED = option("--loaded", action="store_true", help="although other work runs")
RUNNING = (
    option("--tier", default="auto", choices=["auto", "cpu", "gpu", "big"], help="sizes to run at"),
    option("--jobs", type=int, default=0, metavar="N", help="notebooks at once (default: one for two cores)"),
    seconds(run.TIMEOUT_SECONDS),
    option("--force", action="store_true", help="run again what is unchanged, too"),
)
RACING = (
    option("--rounds", type=int, metavar="N", help="of a race (default: the bench's own choice, mostly 20)"),
    option("--threads", type=int, metavar="N", help="of a race (default: the bench's own choice)"),
    option("--bench", metavar="NAME", help="only this one, such as ctc for ctc/bench_ctc.py (default: all)"),
    LOADED,
)


@command("execute notebooks with papermill; unchanged ones come from the cache", CHAPTERS, *RUNNING)
def _run(book: Repository, given: argparse.Namespace) -> int:
    chosen = run.Options(tier=given.tier, jobs=given.jobs, timeout=given.timeout, force=given.force)
    return run.report(run.run(book, given.chapters, chosen))


@command("pytest over two processes; what follows goes to pytest, such as -n0 or a path", REST)
def _test(book: Repository, given: argparse.Namespace) -> int:
    from .run import suite

    return suite.run(book, given.arguments)


@command(
    "the benches beside their peers, on a quiet machine; their receipts are recorded", SOME, *RACING, seconds(3600)
)
def _race(book: Repository, given: argparse.Namespace) -> int:
    from . import race

    own = race.Options(given.rounds, given.threads, given.loaded, given.timeout, given.bench)
    return race.race(book, given.chapters, own)


@command(
    "what the chapters' study_*.py declare, alone on the machine, resumed after a kill; receipts are recorded",
    SOME,
    option("--study", metavar="NAME", help="only this one (default: all of the chapter)"),
    option("--trial", action="store_true", help="two seeds at the sizes of `trial`; nothing is recorded"),
    LOADED,
)
def _study(book: Repository, given: argparse.Namespace) -> int:
    from .study import recording

    return recording.study(book, given.chapters, recording.Options(given.study, given.trial, given.loaded))


@command(
    "notebooks on a pretended GPU: what a card would refuse, and its work counted",
    CHAPTERS,
    seconds(600),
    option("--until", type=int, metavar="CELL", help="the notebook's beginning, to this cell"),
    option("--predict", action="store_true", help="count what rehearsed_<stem>.py holds, into data/predictions/"),
)
def _rehearse(book: Repository, given: argparse.Namespace) -> int:
    from . import predict
    from .rehearse import rehearse

    with lock(book.build / ".press.lock", "press rehearse"):  # a run would clear its folder away
        if given.predict:
            return predict.count(book, given.chapters)
        return rehearse(book, given.chapters, given.timeout, given.until)


@command(
    "measure on this machine's GPU, check the receipts, and say where to send them",
    CHAPTERS,
    option("--page", action="store_true", help="the notebooks alone, without races"),
    *RACING,
)
def _receipt(book: Repository, given: argparse.Namespace) -> int:
    from .incoming import collect

    own = collect.Options(given.page, given.rounds, given.loaded, given.threads, given.bench)
    return collect.receipt(book, given.chapters, own)


@command(
    "the gates: what must hold before anything is published",
    option("gates", nargs="*", metavar="GATE", help="only these (default: all)"),
    option("--fix", action="store_true", help="first empty outputs and write the setup cells"),
)
def _check(book: Repository, given: argparse.Namespace) -> int:
    from . import gates
    from .gates.chapters.notebooks import fix

    for path in fix(book) if given.fix else ():
        print(f"mended {path}")
    return gates.check(Repository(given.root), given.gates)


@command(
    "run what changed, then print the book into _build/html",
    option("--no-run", action="store_true", help="use the executed copies as they are"),
    *RUNNING,
)
def _build(book: Repository, given: argparse.Namespace) -> int:
    from .print.build import build

    given.chapters = []
    if not given.no_run and _run(book, given):
        print("press: the book was not built; a book holds only notebooks that ran to the end", file=sys.stderr)
        return 1
    build(Repository(given.root))
    return 0


@command(
    "show the built book on this machine",
    option("--port", type=int, default=8000, help="default: %(default)s; 0 takes a free one"),
)
def _serve(book: Repository, given: argparse.Namespace) -> int:
    from .server import serve

    return serve(book, given.port)


@command(
    "scaffold a part, a chapter, or one more notebook in a chapter, past every gate",
    option("kind", choices=["part", "chapter", "notebook"]),
    option("name", help="NAME of a part, PART/NAME of a chapter, PART/CHAPTER/NAME of a notebook"),
)
def _new(book: Repository, given: argparse.Namespace) -> None:
    from .scaffold import new

    make = {"part": new.new_part, "chapter": new.new_chapter, "notebook": new.new_notebook}[given.kind]
    for path in make(book, given.name):
        print(f"wrote {book.relative(path)}")


@command("student, solution and instructor notebooks, into _build/variants", CHAPTERS)
def _variants(book: Repository, given: argparse.Namespace) -> None:
    from .teach.variants import write

    for chapter in book.select(given.chapters):
        for path in write(chapter, book.build / "variants" / Path(chapter.document).parent):
            print(f"wrote {book.relative(path)}")


@command(
    "prove exercises (only solutions pass) and checkpoints (they start alone)",
    CHAPTERS,
    option("--sections", action="store_true", help="also run each section after its checkpoint, alone"),
)
def _prove(book: Repository, given: argparse.Namespace) -> int:
    from .teach.proofs import prove, prove_sections

    wrong = 0
    for chapter in book.select(given.chapters):
        for proof in prove(book, chapter) + prove_sections(book, chapter, whole=given.sections):
            told = proof.problem or f"as it should be ({proof.seconds:.1f} s)"
            print(f"{chapter}: {proof.exercise}, {proof.attempt}: {told}", flush=True)
            wrong += bool(proof.problem)
    return int(wrong > 0)


@command(
    "one zip for a class: notebooks, slides, run-sheet, wheels, data",
    CHAPTERS,
    option("--minutes", type=int, default=90, help="how long the workshop is (default: %(default)s)"),
    option("--start", default="09:00", metavar="HH:MM", help="when it begins (default: %(default)s)"),
    option("--index", default="", metavar="URL", help="where torch comes from; a CPU-only index saves gigabytes"),
    option("--prove", action="store_true", help="unpack and run it in a network namespace without a route"),
    option("--as-built", action="store_true", help="take the book as it is, without a build"),
)
def _workshop(book: Repository, given: argparse.Namespace) -> int:
    from .print.build import book_of
    from .teach.workshop import bundle, offline

    chapters = book.select(given.chapters)
    if not given.as_built and run.report(run.run(book, given.chapters, run.Options())):
        return 1
    html = book_of(book, chapters, as_built=given.as_built)
    made = bundle.make(book, chapters, bundle.Options(given.minutes, given.start, index=given.index), html)
    print(f"{book.relative(made)}: {made.stat().st_size / 1e6:.0f} MB")
    for step, took in offline.prove(made) if given.prove else ():
        print(f"offline: {step}: fine, {took:.0f} s")
    return 0


@command(
    "run notebooks alone in a bare environment that holds what Colab preinstalls",
    CHAPTERS,
    option("--hold", action="append", default=[], metavar="NAME==VERSION", help="of a preinstalled package"),
    option("--as-is", action="store_true", help="with the environment that runs the press"),
)
def _colab(book: Repository, given: argparse.Namespace) -> int:
    from .colab.trial import colab

    return colab(book, given.chapters, given.hold, given.as_is)


@command(
    "forget executed notebooks and the built book; keep the data and the cache",
    option("--cache", action="store_true", help="also empty the cache that all clones share"),
)
def _clean(book: Repository, given: argparse.Namespace) -> None:
    from .reuse import store

    with lock(book.build / ".press.lock", "press clean"):
        removed = [path.name for path in sorted(book.build.glob("*")) if path.name != "data" and remove(path)]
    print(f"removed {', '.join(removed)}" if removed else "nothing to remove")
    if given.cache:
        print(f"emptied {store.folder()}: {store.clear() / 1e6:,.0f} MB")
    else:
        print(f"{store.told()}; `.venv/bin/python book/press clean --cache` empties it")


@command("")  # the process of one notebook; started by `run` alone
def _worker(book: Repository, given: argparse.Namespace) -> int:
    from .run.worker import execute

    return execute(json.loads(Path("task.json").read_text(encoding="utf-8")))


@command("", REST)  # the process of a study
def _study_worker(book: Repository, given: argparse.Namespace) -> int:
    from .study.worker import main

    return main(given.arguments)
