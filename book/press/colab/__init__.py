"""A chapter in Colab: the `setup_cell` of every notebook, what it calls (`prepare`), the `branch` that its buttons
open, and a `trial` without Colab."""
