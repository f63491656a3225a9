"""Gates on what chapters and pages say: `notebooks` (files, cells), `cards` (and the lessons in them), `acts`, `said`
(texts and numbers)."""
