"""Gates on what chapters and pages say: `notebooks` (the file and its cells), `cards`, `said` (alt texts, numbers,
comparisons).
"""
