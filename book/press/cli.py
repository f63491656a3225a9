"""The command line of the press: one table of commands, at the end, with their words, functions and options."""

import argparse
import sys
from importlib import import_module
from pathlib import Path

from .errors import PressError
from .files import lock, read_json, remove
from .repository import HOME, Repository
from .run import Options


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
    for name, (words, takes, do) in COMMANDS.items():
        shown = {"help": words, "description": words} if words else {}
        if takes == REST:  # so that options are another's, too
            made = commands.add_parser(name, **shown, prefix_chars="\0", add_help=False)
            made.add_argument(REST, nargs="*")
        else:
            made = commands.add_parser(name, **shown)
            for option in takes.split():
                made.add_argument(option.rstrip("+"), **OPTIONS[option])
        made.set_defaults(do=do)
    return top


def part(name: str):
    """A module of the press, imported when a command needs it."""
    return import_module(f".{name}", __package__)


def own(options: type, given: argparse.Namespace):
    """What was given, as these options of a part of the press; it knows what holds for the rest."""
    known = options.__annotations__
    return options(**{name: value for name, value in vars(given).items() if name in known and value is not None})


def recorded(module: str, name: str):
    """The command that hands the chapters and its options to a function of a part of the press."""
    return lambda book, given: getattr(part(module), name)(book, given.chapters, own(part(module).Options, given))


def handed(module: str, name: str, *options: str):
    """The command that hands these options to a function of a part of the press."""
    return lambda book, given: getattr(part(module), name)(book, *(getattr(given, option) for option in options))


def _run(book: Repository, given: argparse.Namespace) -> int:
    return part("run").report(part("run").run(book, given.chapters, own(Options, given)))


def _rehearse(book: Repository, given: argparse.Namespace) -> int:
    with lock(book.build / ".press.lock", "press rehearse"):  # a run would clear its folder away
        if given.predict:
            return part("predict").count(book, given.chapters)
        return part("rehearse").rehearse(book, given.chapters, given.timeout or part("rehearse").TIMEOUT_SECONDS)


def _check(book: Repository, given: argparse.Namespace) -> int:
    for path in part("gates.chapters.notebooks").fix(book) if given.fix else ():
        print(f"mended {path}")
    return part("gates").check(Repository(given.root), given.gates, given.chapters)


def _build(book: Repository, given: argparse.Namespace) -> int:
    if not given.no_run and _run(book, given):
        print("press: the book was not built; a book holds only notebooks that ran to the end", file=sys.stderr)
        return 1
    printed, book = part("print.build"), Repository(given.root)  # read anew: it has run
    if given.chapters:
        printed.book_of(book, book.select(given.chapters))
    else:
        printed.build(book)
    return 0


def _new(book: Repository, given: argparse.Namespace) -> int:
    for path in getattr(part("scaffold.new"), f"new_{given.kind}")(book, given.name):
        print(f"wrote {book.relative(path)}")
    given.chapters, given.predict = [given.name], True
    return 0 if given.kind == "part" else _rehearse(Repository(given.root), given)


def _remove(book: Repository, given: argparse.Namespace) -> None:
    print(*part("scaffold.removal").remove_chapter(book, given.name, given.force), sep="\n")  # all of it, then told


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
    bundle.sheet_of(chapters, own(bundle.Options, given))  # refused before anything runs
    if _run(book, given):
        return 1
    html = part("print.build").book_of(book, chapters)
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


def flag(words: str) -> dict:
    """An option that is there or not."""
    return {"action": "store_true", "help": words}


OPTIONS = {  # what commands take, by its name; a sign behind the name of an argument says how it is read there
    "chapters": {"nargs": "*", "metavar": "CHAPTER", "help": "part/chapter, part or stem (default: all)"},
    "chapters+": {"nargs": "+", "metavar": "CHAPTER", "help": "part/chapter, part or stem"},
    "gates": {"nargs": "*", "metavar": "GATE", "help": "only these (default: all)"},
    "kind": {"choices": ["part", "chapter", "notebook"]},
    "name": {"help": "NAME of a part, PART/NAME of a chapter, PART/CHAPTER/NAME of a notebook"},
    "--chapters": {"type": str.split, "metavar": '"CHAPTER …"', "help": "only what lies in these (default: all)"},
    "--as-is": flag("with the environment that runs the press"),
    "--bench": {"metavar": "NAME", "help": "only this one, such as ctc for ctc/bench_ctc.py (default: all)"},
    "--cache": flag("also empty the cache that all clones share"),
    "--fix": flag("first empty outputs and write the setup cells"),
    "--force": flag("run also what is unchanged, remove also what is not committed"),
    "--hold": {"action": "append", "default": [], "metavar": "NAME==VERSION", "help": "of a preinstalled package"},
    "--index": {"default": "", "metavar": "URL", "help": "where torch comes from; a CPU-only index saves gigabytes"},
    "--jobs": {"type": int, "default": 0, "metavar": "N", "help": "notebooks at once (default: one for two cores)"},
    "--loaded": flag("although other work runs"),
    "--minutes": {"type": int, "default": 90, "help": "how long the workshop is (default: %(default)s)"},
    "--no-run": flag("use the executed copies as they are"),
    "--page": flag("the notebooks alone, without races"),
    "--port": {"type": int, "default": 8000, "help": "default: %(default)s; 0 takes a free one"},
    "--predict": flag("count what rehearsed_<stem>.py holds, into data/predictions/"),
    "--prove": flag("unpack and run it in a network namespace without a route"),
    "--rounds": {"type": int, "metavar": "N", "help": "of a race (default: the bench's own choice, mostly 20)"},
    "--sections": flag("also run each section after its checkpoint, alone"),
    "--start": {"default": "09:00", "metavar": "HH:MM", "help": "when it begins (default: %(default)s)"},
    "--study": {"metavar": "NAME", "help": "only this one (default: all of the chapter)"},
    "--threads": {"type": int, "metavar": "N", "help": "of a race (default: the bench's own choice)"},
    "--tier": {"default": "auto", "choices": ["auto", "cpu", "gpu", "big"], "help": "sizes to run at"},
    "--timeout": {"type": float, "metavar": "S", "help": "seconds each (default: what such a process may take)"},
    "--trial": flag("two seeds at the sizes of `trial`; nothing is recorded"),
}
REST = "arguments"  # all that follows is another's
COMMANDS = {  # by name: words (the press's own have none, and no help shows them), what it takes, what it does
    "run": ("execute notebooks; unchanged ones come from the cache", "chapters --tier --jobs --timeout --force", _run),
    "test": (
        "pytest over two processes; what follows goes to pytest, such as -n0 or a path",
        REST,
        handed("run.suite", "run", REST),
    ),
    "race": (
        "the benches beside their peers, on a quiet machine; their receipts are recorded",
        "chapters+ --rounds --threads --bench --loaded --timeout",
        recorded("race", "race"),
    ),
    "study": (
        "what the chapters' study_*.py declare, alone on the machine, resumed after a kill; receipts are recorded",
        "chapters+ --study --trial --loaded",
        recorded("study.recording", "study"),
    ),
    "rehearse": (
        "notebooks on a pretended GPU: finds, and the work counted",
        "chapters --timeout --predict",
        _rehearse,
    ),
    "receipt": (
        "measure on this machine's GPU, check the receipts, and say where to send them",
        "chapters --page --rounds --threads --bench --loaded",
        lambda book, given: part("incoming").receipt(
            book, given.chapters, None if given.page else own(part("race").Options, given)
        ),
    ),
    "check": ("the gates: what must hold before anything is published", "gates --chapters --fix", _check),
    "build": (
        "run what changed, then print the book into _build/html",
        "chapters --no-run --tier --jobs --timeout --force",
        _build,
    ),
    "serve": ("show the built book on this machine", "--port", handed("server", "serve", "port")),
    "new": ("scaffold a part, a chapter, or one more notebook in a chapter, past every gate", "kind name", _new),
    "remove": (
        "take a chapter or a notebook out of the book, and say what still speaks of it",
        "name --force",
        _remove,
    ),
    "variants": ("student, solution and instructor notebooks, into _build/variants", "chapters", _variants),
    "prove": ("exercises (only solutions pass) and checkpoints (they start alone)", "chapters --sections", _prove),
    "workshop": (
        "one zip for a class: notebooks, slides, run-sheet, wheels, data",
        "chapters --minutes --start --index --prove",
        _workshop,
    ),
    "colab": (
        "run notebooks alone in a bare environment that holds what Colab preinstalls",
        "chapters --hold --as-is",
        handed("colab.trial", "colab", "chapters", "hold", "as_is"),
    ),
    "branch": ("the branch that the book's buttons open, of the last commit", "", handed("colab.branch", "branch")),
    "clean": ("forget executed notebooks and the built book; keep the data and the cache", "--cache", _clean),
    # the process of one notebook, and of one study
    "worker": ("", "", lambda *_: part("run.worker").execute(read_json(Path("task.json")))),
    "study-worker": ("", REST, lambda _, given: part("study.worker").main(given.arguments)),
}
