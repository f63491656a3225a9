"""Gates on what chapters and pages say: `notebooks` (files, cells), `cards`, `acts`, `taught` (lessons), `said`
(texts and numbers)."""
