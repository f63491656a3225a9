"""Races: `benches` runs a slice's `bench_*.py` on a quiet machine, `peers` makes the environments that they need."""

from .benches import Busy, Options, race

__all__ = ["Busy", "Options", "race"]
