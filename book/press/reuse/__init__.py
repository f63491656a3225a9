"""What is kept of runs, tests and environments, and what need not run again: `cache` knows what a page and a chapter's
tests depend on · `packages` reads imports, the repository's and the installed · `machine` asks what this machine is ·
`store` keeps entries outside the clone."""
