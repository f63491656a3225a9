"""Gates on what chapters and pages say: `notebooks` (the file and its cells), `cards`, `acts`, `said` (alt texts,
numbers, comparisons)."""
