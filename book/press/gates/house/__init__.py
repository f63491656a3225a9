"""Gates on what chapters stand on: `registry` (data), `live` (models in the page), `links`, `code` (names, rooms,
imports, lines), `versions` (pins, the release), `budgets` (the time of runs), `receipts` (ours and those of readers).
"""
