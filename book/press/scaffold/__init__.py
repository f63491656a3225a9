"""`press new`: a part, a chapter or a notebook (`new`), entered in `_toc.yml` (`contents`); templates end in `.txt`."""
