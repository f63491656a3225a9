"""Claims beside what was measured: `ledger` gathers runs and judges, `pages` prints them, `tables` writes the HTML."""

from .ledger import DECIDED, FINDINGS, Entry, Finding, Ledger, Run, gather

__all__ = ["DECIDED", "FINDINGS", "Entry", "Finding", "Ledger", "Run", "gather"]
