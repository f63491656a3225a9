"""What a reader meets first: `gallery` is the chapters as cards and the welcome's numbers, `pictures` what runs drew,
`hero` the live model on the welcome page, `opening` a chapter's first screen and the labels of folded cells, `contents`
the menus, `search` the index by section.
"""
