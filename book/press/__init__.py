"""The press: it runs the notebooks, checks the house rules and builds the book.

`.venv/bin/python book/press --help` lists the commands. The press imports neither torch nor any chapter; a notebook
runs in a process of its own.

Commands: `commands.yml` lists them, `cli` reads them · `run` notebooks and tests · `reuse` what need not run again ·
`race` benches beside their peers · `study` what chapters declare · `rehearse` notebooks on a pretended GPU · `predict`
their work counted · `incoming` receipts from readers · `gates` what must hold · `scaffold` makes and removes chapters ·
`colab` a chapter there · `server` shows the book.
Pages: `print` makes the book, `ledger` what came true, `face` what a reader meets first, `teach` what a class gets,
`lean` what pages weigh, `taught` what all chapters teach together.
Beneath: `repository` is the model of chapters and settings · `files` writes whole files or none, and asks schemas ·
`chromium` is the browser, `npm` what runs in one · `errors` holds the one error that a user can mend, and asks git."""

from .errors import PressError
from .repository import Chapter, Repository

__all__ = ["Chapter", "PressError", "Repository"]
