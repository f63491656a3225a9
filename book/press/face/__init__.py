"""What a reader meets first: `gallery` has the chapters as cards and the welcome page's pieces, `chart` the front
page's chart, `opening` a chapter's first screen and the labels of folded cells, `pages` the menus, the search and what
machines read of a page."""
