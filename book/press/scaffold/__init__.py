"""`press new` makes parts, chapters and notebooks (`new`; templates end in `.txt`), `press remove` ends them
(`removal`)."""
