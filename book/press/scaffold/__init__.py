"""A new part or chapter (`new`), filled in from the templates beside it."""
