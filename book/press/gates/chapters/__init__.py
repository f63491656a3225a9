"""Gates on what chapters and pages say: `notebooks` (outputs, first cells, length, tags, a reader's time), `cards`
(schema, exercises), `figures` (alt texts), `said` (typed measurements and comparisons), `words` (spelling, style).
"""
