"""Sounds to learn from: real clips, and phrases drawn and rendered: `rendering`."""
