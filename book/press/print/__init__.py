"""The book printed: `build` has `source` assemble what Jupyter Book reads, prints it, has a browser weigh its pages,
and has `pdf` make documents of them. `generated` writes at the pages' markers and at a chapter's end · `live` packs a
page's models · `exercise` the answers that a reader writes there, which `attempt` tries · `edition`: some chapters."""
