"""A chapter in Colab: the `setup_cell` of every notebook, what it calls (`prepare`), the buttons' `branch`, `trial`."""
