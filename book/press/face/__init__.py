"""What a reader meets first: `gallery` has the chapters as cards and the welcome page's pieces, `chart` the front
page's chart, `opening` a chapter's first screen and folded cells' labels, `pages` menus and search."""
