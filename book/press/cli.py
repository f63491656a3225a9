"""The command line of the press."""

import argparse
import json
import sys
from pathlib import Path

from .errors import PressError
from .race import command as races
from .repository import HOME, Repository
from .study import command as studies


def main(arguments: list[str] | None = None) -> int:
    """Run one command; the exit status: 0 fine, 1 something failed, 2 wrong use, 130 interrupted."""
    options = parser().parse_args(arguments)
    try:
        return options.do(options)
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

    def command(name: str, do, text: str, **how) -> argparse.ArgumentParser:
        made = commands.add_parser(name, help=text, description=text, **how)
        made.set_defaults(do=do)
        return made

    made = command("run", _run, "execute notebooks with papermill; unchanged ones come from the cache")
    made.add_argument("chapters", nargs="*", metavar="CHAPTER", help="part/chapter, part or stem (default: all)")
    _run_options(made)
    _test_options(commands, _test)
    text = "the benches beside their peers, on a quiet machine; their receipts are recorded"
    races.options(command("race", races.race, text))
    studies.options(command("study", studies.study, studies.TEXT))
    text = "notebooks on a pretended GPU: what a card would refuse, and its work counted"
    _rehearse_options(command("rehearse", _rehearse, text))
    text = "measure on this machine's GPU, check the receipts, and say where to send them"
    _receipt_options(command("receipt", _receipt, text))
    _check_options(command("check", _check, "the gates: what must hold before anything is published"))
    _build_options(command("build", _build, "run what changed, then print the book into _build/html"))
    made = command("serve", _serve, "show the built book on this machine")
    made.add_argument("--port", type=int, default=8000, help="default: %(default)s; 0 takes a free one")
    _new_options(command("new", _new, "scaffold a part, a chapter, or one more notebook in a slice, past every gate"))
    made = command("variants", _variants, "student, solution and instructor notebooks, into _build/variants")
    made.add_argument("chapters", nargs="*", metavar="CHAPTER", help="part/chapter, part or stem (default: all)")
    _prove_options(command("prove", _prove, "prove exercises (only solutions pass) and checkpoints (they start alone)"))
    _workshop_options(command("workshop", _workshop, "one zip for a class: notebooks, slides, run-sheet, wheels, data"))
    text = "run notebooks alone in a bare environment that holds what Colab preinstalls"
    _colab_options(command("colab", _colab, text))
    made = command("clean", _clean, "forget executed notebooks and the built book; keep the data and the cache")
    made.add_argument("--cache", action="store_true", help="also empty the cache that all clones share")
    worker = commands.add_parser("worker")  # the process of one notebook; started by `run` only
    worker.set_defaults(do=_worker)
    studies.worker(commands)
    return top


def _test_options(commands, do) -> None:
    text = "pytest over two processes; what follows goes to pytest, such as -n0 or a path"
    made = commands.add_parser("test", help=text, prefix_chars="\0", add_help=False)  # so that options are pytest's
    made.add_argument("arguments", nargs="*")
    made.set_defaults(do=do)


def _build_options(made: argparse.ArgumentParser) -> None:
    text = "a book of only these, into _build/editions (default: the whole book)"
    made.add_argument("chapters", nargs="*", metavar="CHAPTER", help=text)
    made.add_argument("--no-run", action="store_true", help="use the executed copies as they are")
    _run_options(made)


def _check_options(made: argparse.ArgumentParser) -> None:
    made.add_argument("gates", nargs="*", metavar="GATE", help="only these (default: all)")
    made.add_argument("--fix", action="store_true", help="first empty outputs and write the setup cells")


def _new_options(made: argparse.ArgumentParser) -> None:
    made.add_argument("kind", choices=["part", "chapter", "notebook"])
    made.add_argument("name", help="NAME of a part, PART/NAME of a chapter, PART/SLICE/NAME of a notebook")


def _prove_options(made: argparse.ArgumentParser) -> None:
    made.add_argument("chapters", nargs="*", metavar="CHAPTER", help="part/chapter, part or stem (default: all)")
    made.add_argument("--sections", action="store_true", help="also run each section after its checkpoint, alone")


def _workshop_options(made: argparse.ArgumentParser) -> None:
    made.add_argument("chapters", nargs="*", metavar="CHAPTER", help="part/chapter, part or stem (default: all)")
    made.add_argument("--minutes", type=int, default=90, help="how long the workshop is (default: %(default)s)")
    made.add_argument("--start", default="09:00", metavar="HH:MM", help="when it begins (default: %(default)s)")
    made.add_argument(
        "--index", default="", metavar="URL", help="where torch comes from; a CPU-only index saves gigabytes"
    )
    made.add_argument("--prove", action="store_true", help="unpack and run it in a network namespace without a route")
    made.add_argument("--as-built", action="store_true", help="take the book as it is, without a build")


def _run_options(made: argparse.ArgumentParser) -> None:
    from .run import TIMEOUT_SECONDS

    made.add_argument("--tier", default="auto", choices=["auto", "cpu", "gpu", "big"], help="sizes to run at")
    made.add_argument("--jobs", type=int, default=0, metavar="N", help="notebooks at once (default: one for two cores)")
    made.add_argument(
        "--timeout",
        type=float,
        default=TIMEOUT_SECONDS,
        metavar="S",
        help="seconds for each notebook (default: %(default)s)",
    )
    made.add_argument("--force", action="store_true", help="run again what is unchanged, too")


def _rehearse_options(made: argparse.ArgumentParser) -> None:
    made.add_argument("chapters", nargs="*", metavar="CHAPTER", help="part/chapter, part or stem (default: all)")
    made.add_argument("--timeout", type=float, default=600, metavar="S", help="seconds each (default: %(default)s)")
    made.add_argument("--until", type=int, metavar="CELL", help="the notebook's beginning, to this cell")
    text = "count the parts in rehearsed_<stem>.py at each tier's sizes, into data/predictions/"
    made.add_argument("--predict", action="store_true", help=text)


def _receipt_options(made: argparse.ArgumentParser) -> None:
    made.add_argument("chapters", nargs="*", metavar="CHAPTER", help="part/chapter, part or stem (default: all)")
    made.add_argument("--page", action="store_true", help="the notebooks alone, without races")
    made.add_argument("--rounds", type=int, metavar="N", help="of a race (default: the bench's own choice)")
    made.add_argument("--threads", type=int, metavar="N", help="of a race (default: the bench's own choice)")
    made.add_argument("--loaded", action="store_true", help="race although other work runs")
    made.add_argument("--bench", metavar="NAME", help="race only this one (default: all)")


def _colab_options(made: argparse.ArgumentParser) -> None:
    made.add_argument("chapters", nargs="*", metavar="CHAPTER", help="part/chapter, part or stem (default: all)")
    made.add_argument("--hold", action="append", default=[], metavar="NAME==VERSION", help="of a preinstalled package")
    made.add_argument("--as-is", action="store_true", help="with the environment that runs the press")


def _run(options: argparse.Namespace) -> int:
    from . import run

    outcomes = run.run(Repository(options.root), options.chapters, _chosen(options))
    return run.report(outcomes)


def _chosen(options: argparse.Namespace):
    from .run import Options

    return Options(tier=options.tier, jobs=options.jobs, timeout=options.timeout, force=options.force)


def _test(options: argparse.Namespace) -> int:
    from .run import suite

    return suite.run(Repository(options.root), options.arguments)


def _rehearse(options: argparse.Namespace) -> int:
    from . import predict
    from .files import lock
    from .rehearse import rehearse

    repository = Repository(options.root)
    with lock(repository.build / ".press.lock", "press rehearse"):  # a run would clear its folder away
        if options.predict:
            return predict.count(repository, options.chapters)
        return rehearse(repository, options.chapters, options.timeout, options.until)


def _receipt(options: argparse.Namespace) -> int:
    from .incoming import collect

    own = collect.Options(options.page, options.rounds, options.loaded, options.threads, options.bench)
    return collect.receipt(Repository(options.root), options.chapters, own)


def _check(options: argparse.Namespace) -> int:
    from . import gates
    from .gates.chapters.notebooks import fix

    if options.fix:
        for path in fix(Repository(options.root)):
            print(f"mended {path}")
    return gates.check(Repository(options.root), options.gates)


def _build(options: argparse.Namespace) -> int:
    from .print.build import book_of, build

    if not options.no_run:
        status = _run(options)
        if status:
            print("press: the book was not built; a book holds only notebooks that ran to the end", file=sys.stderr)
            return status
    repository = Repository(options.root)
    if options.chapters:
        book_of(repository, repository.select(options.chapters))
    else:
        build(repository)
    return 0


def _serve(options: argparse.Namespace) -> int:
    from .server import serve

    return serve(Repository(options.root), options.port)


def _new(options: argparse.Namespace) -> int:
    from .scaffold import new

    repository = Repository(options.root)
    make = {"part": new.new_part, "chapter": new.new_chapter, "notebook": new.new_notebook}[options.kind]
    for path in make(repository, options.name):
        print(f"wrote {repository.relative(path)}")
    return 0


def _workshop(options: argparse.Namespace) -> int:
    from . import run
    from .print.build import book_of
    from .teach.workshop import bundle, offline

    repository = Repository(options.root)
    chapters = repository.select(options.chapters)
    if not options.as_built:
        status = run.report(run.run(repository, options.chapters, run.Options()))
        if status:
            return status
    html = book_of(repository, chapters, as_built=options.as_built)
    made = bundle.make(repository, chapters, bundle.Options(options.minutes, options.start, index=options.index), html)
    print(f"{repository.relative(made)}: {made.stat().st_size / 1e6:.0f} MB")
    for step, seconds in offline.prove(made) if options.prove else ():
        print(f"offline: {step}: fine, {seconds:.0f} s")
    return 0


def _colab(options: argparse.Namespace) -> int:
    from .colab.trial import colab

    return colab(Repository(options.root), options.chapters, options.hold, options.as_is)


def _clean(options: argparse.Namespace) -> int:
    from .files import lock, remove
    from .reuse import store

    folder = Repository(options.root).build
    with lock(folder / ".press.lock", "press clean"):
        removed = [path.name for path in sorted(folder.glob("*")) if path.name != "data" and remove(path)]
    print(f"removed {', '.join(removed)}" if removed else "nothing to remove")
    if options.cache:
        print(f"emptied {store.folder()}: {store.clear() / 1e6:,.0f} MB")
    else:
        print(f"{store.told()}; `.venv/bin/python book/press clean --cache` empties it")
    return 0


def _variants(options: argparse.Namespace) -> int:
    from .teach.variants import write

    repository = Repository(options.root)
    for chapter in repository.select(options.chapters):
        for path in write(chapter, repository.build / "variants" / Path(chapter.document).parent):
            print(f"wrote {repository.relative(path)}")
    return 0


def _prove(options: argparse.Namespace) -> int:
    from .teach.proofs import prove, prove_sections

    repository = Repository(options.root)
    wrong = 0
    for chapter in repository.select(options.chapters):
        found = prove(repository, chapter) + prove_sections(repository, chapter, whole=options.sections)
        for proof in found:
            told = proof.problem or f"as it should be ({proof.seconds:.1f} s)"
            print(f"{chapter}: {proof.exercise}, {proof.attempt}: {told}", flush=True)
        wrong += sum(bool(proof.problem) for proof in found)
    return int(wrong > 0)


def _worker(options: argparse.Namespace) -> int:
    from .run.worker import execute

    return execute(json.loads(Path("task.json").read_text(encoding="utf-8")))
