"""The gate on what cards say beside their claims: reasons, gains, where the plain way won, slips of the articles."""

from collections.abc import Iterator

from ...ledger import gather
from ...repository import Repository
from ...taught import amiss
from .. import gate


@gate
def taught(repository: Repository) -> Iterator[tuple]:
    """Reasons, gains, plain ways that won and errata are borne out by notebooks and runs."""
    for entry in gather(repository).entries:
        yield from ((entry.chapter.card_path, what) for what in amiss(entry))
