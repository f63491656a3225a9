"""What a GPU is predicted to take: counted without one, kept in `data/predictions/`, judged by receipts.

`counting` makes the files (`press rehearse --predict`), `limits` says how much arithmetic bytes allow, `kept` reads
the files and asks the formula, `rules` are what a chapter's counts have to hold, `pages` writes what chapters, fit
cards and the ledger show.
"""

from .counting import count

__all__ = ["count"]
