"""The command line of the press: one table of commands, at the end, with their words, functions and options."""

import argparse
import json
import sys
from importlib import import_module
from pathlib import Path

from .errors import PressError
from .files import lock, remove
from .repository import HOME, Repository
from .run import TIMEOUT_SECONDS, Options


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
    for name, (words, do, *options) in COMMANDS.items():
        shown = {"help": words, "description": words} if words else {}
        raw = {"prefix_chars": "\0", "add_help": False} if options == [REST] else {}  # so that options are another's
        made = commands.add_parser(name, **shown, **raw)
        for names, how in options:
            made.add_argument(*names, **how)
        made.set_defaults(do=do)
    return top


def part(name: str):
    """A module of the press, imported when a command needs it."""
    return import_module(f".{name}", __package__)


def own(options: type, given: argparse.Namespace):
    """What was given, as these options of a part of the press."""
    return options(**{name: value for name, value in vars(given).items() if name in options.__annotations__})


def recorded(module: str, name: str):
    """The command that hands the chapters and its options to a function of a part of the press."""
    return lambda book, given: getattr(part(module), name)(book, given.chapters, own(part(module).Options, given))


def _run(book: Repository, given: argparse.Namespace) -> int:
    return part("run").report(part("run").run(book, given.chapters, own(Options, given)))


def _rehearse(book: Repository, given: argparse.Namespace) -> int:
    with lock(book.build / ".press.lock", "press rehearse"):  # a run would clear its folder away
        if given.predict:
            return part("predict").count(book, given.chapters)
        return part("rehearse").rehearse(book, given.chapters, given.timeout, given.until)


def _check(book: Repository, given: argparse.Namespace) -> int:
    for path in part("gates.chapters.notebooks").fix(book) if given.fix else ():
        print(f"mended {path}")
    return part("gates").check(Repository(given.root), given.gates)


def _build(book: Repository, given: argparse.Namespace) -> int:
    given.chapters = []
    if not given.no_run and _run(book, given):
        print("press: the book was not built; a book holds only notebooks that ran to the end", file=sys.stderr)
        return 1
    part("print.build").build(Repository(given.root))
    return 0


def _new(book: Repository, given: argparse.Namespace) -> int:
    for path in getattr(part("scaffold.new"), f"new_{given.kind}")(book, given.name):
        print(f"wrote {book.relative(path)}")
    given.chapters, given.predict = [given.name], True
    return 0 if given.kind == "part" else _rehearse(Repository(given.root), given)


def _remove(book: Repository, given: argparse.Namespace) -> None:
    for line in part("scaffold.removal").remove_chapter(book, given.name, given.force):
        print(line)


def _variants(book: Repository, given: argparse.Namespace) -> None:
    for chapter in book.select(given.chapters):
        for path in part("teach.variants").write(chapter, book.build / "variants" / Path(chapter.document).parent):
            print(f"wrote {book.relative(path)}")


def _prove(book: Repository, given: argparse.Namespace) -> int:
    proofs, wrong = part("teach.proofs"), 0
    for chapter in book.select(given.chapters):
        for proof in proofs.prove(book, chapter) + proofs.prove_sections(book, chapter, whole=given.sections):
            told = proof.problem or f"as it should be ({proof.seconds:.1f} s)"
            print(f"{chapter}: {proof.exercise}, {proof.attempt}: {told}", flush=True)
            wrong += bool(proof.problem)
    return int(wrong > 0)


def _workshop(book: Repository, given: argparse.Namespace) -> int:
    chapters, bundle = book.select(given.chapters), part("teach.workshop.bundle")
    if not given.as_built and _run(book, given):
        return 1
    html = part("print.build").book_of(book, chapters, as_built=given.as_built)
    made = bundle.make(book, chapters, own(bundle.Options, given), html)
    print(f"{book.relative(made)}: {made.stat().st_size / 1e6:.0f} MB")
    for step, took in part("teach.workshop.offline").prove(made) if given.prove else ():
        print(f"offline: {step}: fine, {took:.0f} s")
    return 0


def _clean(book: Repository, given: argparse.Namespace) -> None:
    store = part("reuse.store")
    with lock(book.build / ".press.lock", "press clean"):
        removed = [path.name for path in sorted(book.build.glob("*")) if path.name != "data" and remove(path)]
    print(f"removed {', '.join(removed)}" if removed else "nothing to remove")
    if given.cache:
        print(f"emptied {store.folder()}: {store.clear() / 1e6:,.0f} MB")
    else:
        print(f"{store.told()}; `.venv/bin/python book/press clean --cache` empties it")


def option(*names: str, **how) -> tuple[tuple[str, ...], dict]:
    """An option or an argument of a command."""
    return names, how


def seconds(default: float):
    """The option --timeout."""
    return option("--timeout", type=float, default=default, metavar="S", help="seconds each (default: %(default)s)")


CHAPTERS = option("chapters", nargs="*", metavar="CHAPTER", help="part/chapter, part or stem (default: all)")
SOME = option("chapters", nargs="+", metavar="CHAPTER", help="part/chapter, part or stem")
REST = option("arguments", nargs="*")
LOADED = option("--loaded", action="store_true", help="although other work runs")
RUNNING = (
    option("--tier", default="auto", choices=["auto", "cpu", "gpu", "big"], help="sizes to run at"),
    option("--jobs", type=int, default=0, metavar="N", help="notebooks at once (default: one for two cores)"),
    seconds(TIMEOUT_SECONDS),
    option("--force", action="store_true", help="run again what is unchanged, too"),
)
RACING = (
    option("--rounds", type=int, metavar="N", help="of a race (default: the bench's own choice, mostly 20)"),
    option("--threads", type=int, metavar="N", help="of a race (default: the bench's own choice)"),
    option("--bench", metavar="NAME", help="only this one, such as ctc for ctc/bench_ctc.py (default: all)"),
    LOADED,
)
COMMANDS = {  # by name: words, function, options; without words it is the press's own, which no help shows
    "run": ("execute notebooks with papermill; unchanged ones come from the cache", _run, CHAPTERS, *RUNNING),
    "test": (
        "pytest over two processes; what follows goes to pytest, such as -n0 or a path",
        lambda book, given: part("run.suite").run(book, given.arguments),
        REST,
    ),
    "race": (
        "the benches beside their peers, on a quiet machine; their receipts are recorded",
        recorded("race", "race"),
        SOME,
        *RACING,
        seconds(3600),
    ),
    "study": (
        "what the chapters' study_*.py declare, alone on the machine, resumed after a kill; receipts are recorded",
        recorded("study.recording", "study"),
        SOME,
        option("--study", metavar="NAME", help="only this one (default: all of the chapter)"),
        option("--trial", action="store_true", help="two seeds at the sizes of `trial`; nothing is recorded"),
        LOADED,
    ),
    "rehearse": (
        "notebooks on a pretended GPU: what a card would refuse, and its work counted",
        _rehearse,
        CHAPTERS,
        seconds(600),
        option("--until", type=int, metavar="CELL", help="the notebook's beginning, to this cell"),
        option("--predict", action="store_true", help="count what rehearsed_<stem>.py holds, into data/predictions/"),
    ),
    "receipt": (
        "measure on this machine's GPU, check the receipts, and say where to send them",
        recorded("incoming.collect", "receipt"),
        CHAPTERS,
        option("--page", action="store_true", help="the notebooks alone, without races"),
        *RACING,
    ),
    "check": (
        "the gates: what must hold before anything is published",
        _check,
        option("gates", nargs="*", metavar="GATE", help="only these (default: all)"),
        option("--fix", action="store_true", help="first empty outputs and write the setup cells"),
    ),
    "build": (
        "run what changed, then print the book into _build/html",
        _build,
        option("--no-run", action="store_true", help="use the executed copies as they are"),
        *RUNNING,
    ),
    "serve": (
        "show the built book on this machine",
        lambda book, given: part("server").serve(book, given.port),
        option("--port", type=int, default=8000, help="default: %(default)s; 0 takes a free one"),
    ),
    "new": (
        "scaffold a part, a chapter, or one more notebook in a chapter, past every gate",
        _new,
        option("kind", choices=["part", "chapter", "notebook"]),
        option("name", help="NAME of a part, PART/NAME of a chapter, PART/CHAPTER/NAME of a notebook"),
    ),
    "remove": (
        "take a chapter, or one notebook of it, out of the book, and say what still speaks of it",
        _remove,
        option("name", help="PART/CHAPTER, or PART/CHAPTER/NOTEBOOK"),
        option("--force", action="store_true", help="also what is not committed"),
    ),
    "variants": ("student, solution and instructor notebooks, into _build/variants", _variants, CHAPTERS),
    "prove": (
        "prove exercises (only solutions pass) and checkpoints (they start alone)",
        _prove,
        CHAPTERS,
        option("--sections", action="store_true", help="also run each section after its checkpoint, alone"),
    ),
    "workshop": (
        "one zip for a class: notebooks, slides, run-sheet, wheels, data",
        _workshop,
        CHAPTERS,
        option("--minutes", type=int, default=90, help="how long the workshop is (default: %(default)s)"),
        option("--start", default="09:00", metavar="HH:MM", help="when it begins (default: %(default)s)"),
        option("--index", default="", metavar="URL", help="where torch comes from; a CPU-only index saves gigabytes"),
        option("--prove", action="store_true", help="unpack and run it in a network namespace without a route"),
        option("--as-built", action="store_true", help="take the book as it is, without a build"),
    ),
    "colab": (
        "run notebooks alone in a bare environment that holds what Colab preinstalls",
        lambda book, given: part("colab.trial").colab(book, given.chapters, given.hold, given.as_is),
        CHAPTERS,
        option("--hold", action="append", default=[], metavar="NAME==VERSION", help="of a preinstalled package"),
        option("--as-is", action="store_true", help="with the environment that runs the press"),
    ),
    "clean": (
        "forget executed notebooks and the built book; keep the data and the cache",
        _clean,
        option("--cache", action="store_true", help="also empty the cache that all clones share"),
    ),
    # the process of one notebook, and of one study
    "worker": ("", lambda *_: part("run.worker").execute(json.loads(Path("task.json").read_text(encoding="utf-8")))),
    "study-worker": ("", lambda _, given: part("study.worker").main(given.arguments), REST),
}
