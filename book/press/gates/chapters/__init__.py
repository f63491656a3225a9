"""Gates on what chapters and pages say: `notebooks` (outputs, first cells, length, tags), `cards` (schema, exercises),
`teaching` (a reader's time), `figures` (alt texts), `numbers` (typed measurements), `results` (typed comparisons),
`words` (spelling, style).
"""
