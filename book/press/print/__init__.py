"""The book printed: `build` gathers the ledger, has `source` assemble what Jupyter Book reads, prints it, and has a
browser measure it (`weights`) and make one document of it (`pdf`), with `answers` at its end and `page_numbers`.

`generated` writes at the pages' markers · `masthead` under a chapter's title · `launch` its buttons · `figure_pages`
links the data of figures · `live` packs the models that run in a page · `edition` is a book of some chapters.
"""
