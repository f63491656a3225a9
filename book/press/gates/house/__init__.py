"""Gates on what chapters stand on: `registry` (data), `links`, `code` (names, rooms, imports, lines), `versions` (pins,
the release, live models), `budgets` (the time of runs), `recorded` (receipts, ours and those of readers; those that
wait to be recorded again; what pages read of them; studies; predictions for GPUs).
"""
