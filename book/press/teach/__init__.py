"""What a class gets: `variants` of a notebook, `checkpoints` to start at any section from the earlier cells that it
needs, `proofs` of exercises, `syllabi`, the `kit` of downloads at a chapter's end, and the zip of a `workshop`.
`length` says what a chapter asks of a reader; `acts` are its small tasks, `answering` their part of a class module.
`courses` are a term and days of several chapters; `scoring` holds what learners hand in against hidden cases."""
