"""What a GPU is predicted to take: counted without one, kept in `data/predictions/`, judged by receipts.

`counting` makes the files (`press rehearse --predict`), `kept` reads them, asks the formula and says what they have to
hold, `pages` writes what chapters, fit cards and the ledger show.
"""

from .counting import count

__all__ = ["count"]
