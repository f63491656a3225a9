"""Gates on what chapters and pages say: the notebook and its cells, its card, what it tells."""
