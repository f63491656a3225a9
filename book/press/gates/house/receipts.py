"""The gate on receipts: what readers send in, held to the same rules as our own."""

from collections.abc import Iterator

from ...incoming.rules import problems
from ...repository import Repository
from .. import Problem, gate


@gate(
    "receipts",
    "receipts are whole, of a notebook, of known code, of the device they say",
    why="a verdict of the ledger stands on one file, which anybody may send",
    mend="measure again with `make receipt` on the machine that it names; never edit a number",
)
def receipts(repository: Repository) -> Iterator[Problem]:
    """What is wrong with the files in `data/receipts/`."""
    for path in sorted((repository.root / "data" / "receipts").rglob("*.json")):
        yield from (Problem(repository.relative(path), what) for what in problems(repository, path))
