"""Claims beside what was measured: `ledger` gathers runs and judges, `pages` prints them, `tables` writes the HTML."""

from .ledger import TESTED, VERDICTS, Finding, Ledger, Run

__all__ = ["TESTED", "VERDICTS", "Finding", "Ledger", "Run"]
