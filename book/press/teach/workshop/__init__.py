"""Workshops: one zip with everything that a class needs, and the proof that it runs without a network."""
