"""The book printed: `build` has `source` assemble what Jupyter Book reads, prints it, has a browser weigh its pages,
and has `pdf` make documents of them. `generated` writes at the pages' markers and at a chapter's end · `live` packs the
models that run in a page · `exercise` the answers that a reader writes there, which `attempt` tries · `edition` is a
book of some chapters."""
