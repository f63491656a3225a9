"""Races: `benches` runs a chapter's `bench_*.py` on a quiet machine, `peers` makes the environments that they need."""

from .benches import ROUNDS, Busy, Options, race

__all__ = ["ROUNDS", "Busy", "Options", "race"]
