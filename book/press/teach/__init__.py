"""What a class gets: `variants` of a notebook, `checkpoints` to start at any section, `proofs` of exercises, `syllabi`,
the `kit` of downloads under a chapter's title, and the zip of a `workshop`. `dependencies` finds the earlier cells that
a piece of a notebook needs, `length` says what a chapter asks of a reader.
"""
