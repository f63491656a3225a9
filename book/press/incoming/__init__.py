"""Receipts from a reader's card: `collect` makes and gathers them (`press receipt`), `rules` judge what comes in."""

from .collect import receipt
from .rules import problems

__all__ = ["problems", "receipt"]
