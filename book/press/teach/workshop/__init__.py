"""Workshops: one zip with everything that a class needs, and the proof that it runs without a network.

`bundle` makes the zip · `schedule` is the timetable and what to skip, `runsheet` shows it · `slides`, `handout` and
`paper` (HTML without a network) are what a class sees · `wheels` are its packages, `datasets` its data · `offline` is
the proof · `room` holds the scripts that travel in the zip.
"""
