"""Gates on what chapters and pages say: `notebooks` (files, cells), `cards`, `acts`, `said` (texts and numbers)."""
