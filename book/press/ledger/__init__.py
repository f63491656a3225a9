"""Claims beside what was measured: `ledger` gathers runs and judges, `pages` prints them, `tables` writes the HTML."""

from .ledger import BUSY_CORES, DECIDED, FINDINGS, Entry, Finding, Ledger, Run, gather, unseen_in

__all__ = ["BUSY_CORES", "DECIDED", "FINDINGS", "Entry", "Finding", "Ledger", "Run", "gather", "unseen_in"]
