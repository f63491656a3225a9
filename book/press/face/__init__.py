"""What a reader meets first: `gallery` has the chapters as cards and the welcome page's pieces, `opening` a chapter's
first screen and the labels of folded cells, `chart` the front page's chart, `pages` the menus and the search of built pages."""
