"""Receipts from a reader's card: `collect` makes and gathers them (`press receipt`), `rules` judge what comes in."""
