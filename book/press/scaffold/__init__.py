"""`press new` makes parts, chapters and notebooks (`new`, templates `.txt`), `press remove` ends them (`removal`)."""
