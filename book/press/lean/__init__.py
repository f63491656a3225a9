"""What pages weigh, cut after Sphinx has written them: `slim` does all of it in a folder of built pages, `styles` makes
one sheet of the rules that they use, with the few icons that it draws."""
