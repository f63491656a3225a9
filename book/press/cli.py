"""The command line of the press: `commands.yml` has the table of commands, with their words and options."""

import argparse
import sys
from importlib import import_module
from pathlib import Path

from .errors import PressError
from .files import lock, remove
from .repository import HOME, Repository, read_yaml
from .run import Options

TABLE = read_yaml(Path(__file__).with_name("commands.yml"))
COMMANDS, OPTIONS = TABLE["commands"], TABLE["options"]
TYPES = {"int": int, "float": float, "words": str.split}
REST = "arguments"  # all that follows is another's


def main(arguments: list[str] | None = None) -> int:
    """Run one command; the exit status: 0 fine, 1 something failed, 2 wrong use, 130 interrupted."""
    given = parser().parse_args(arguments)
    try:
        book, (module, *words) = Repository(given.root), COMMANDS[given.command]["does"].split()
        if not words:
            return globals()[f"_{module}"](book, given) or 0
        module, (name, *options) = part(module), words
        handed = [own(module.Options, given) if option == "Options" else getattr(given, option) for option in options]
        return getattr(module, name)(book, *handed) or 0
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
    commands = top.add_subparsers(metavar="COMMAND", required=True, dest="command")
    for name, command in COMMANDS.items():
        words = command.get("help")
        shown = {"help": words, "description": words} if words else {}
        if command["takes"] == REST:  # so that options are another's, too
            commands.add_parser(name, **shown, prefix_chars="\0", add_help=False).add_argument(REST, nargs="*")
            continue
        made = commands.add_parser(name, **shown)
        for option in command["takes"].split():
            how = OPTIONS[option]
            made.add_argument(option.rstrip("+"), **how | ({"type": TYPES[how["type"]]} if "type" in how else {}))
    return top


def part(name: str):
    """A module of the press, imported when a command needs it."""
    return import_module(f".{name}", __package__)


def own(options: type, given: argparse.Namespace):
    """What was given, as these options of a part of the press; it knows what holds for the rest."""
    found = {name: value for name, value in vars(given).items() if value is not None}
    return options(**{name: found[name] for name in options._fields if name in found})


def _run(book: Repository, given: argparse.Namespace) -> int:
    return part("run").report(part("run").run(book, given.chapters, own(Options, given)))


def _rehearse(book: Repository, given: argparse.Namespace) -> int:
    with lock(book.build / ".press.lock", "press rehearse"):  # a run would clear its folder away
        if given.predict:
            return part("predict.counting").count(book, given.chapters)
        return part("rehearse").rehearse(book, given.chapters, given.timeout or part("rehearse").TIMEOUT_SECONDS)


def _receipt(book: Repository, given: argparse.Namespace) -> int:
    races = None if given.page else own(part("race").Options, given)
    return part("incoming").receipt(book, given.chapters, races)


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
