"""Workshops: one zip with everything that a class needs, and the proof that it runs without a network: `bundle` makes
it · `schedule` is the timetable and what to skip · `paper` makes slides, handout and run-sheet from the templates in
`pages/` · `offline` is the proof · `room` is the script that travels in the zip, for the room."""
