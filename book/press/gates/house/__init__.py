"""Gates on what chapters stand on: `registry` (data), `live` (models in the page), `links`, `code` (names, rooms,
imports, lines), `versions` (pins, the release), `budgets` (the time of runs), `receipts` (ours and those
of readers; those that wait to be recorded again), `shown` (what of them the pages read), `studies` (declared and held),
`predictions` (for GPUs).
"""
