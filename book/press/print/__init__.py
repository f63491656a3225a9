"""The book printed: `source` assembles what Jupyter Book reads, `build` has it printed, `pdf` makes one document of it.

`generated` fills the pages' markers · `launch` writes the buttons · `figure_pages` links the data of figures ·
`live` packs the models that run in a page · `weights` measures the pages.
"""
