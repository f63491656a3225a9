"""Gates on what chapters stand on: `registry` (data, pins, the release, live models), `links`, `code` (names, rooms,
imports, lines, spelling, style), `recorded` (the time of runs, receipts, studies, predictions)."""
