"""What a class gets: `variants` of a notebook, `checkpoints` to start at any section, `proofs` of exercises, `syllabi`,
and the zip of a `workshop`. `dependencies` finds the earlier cells that a piece of a notebook needs.
"""
