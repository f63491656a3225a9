"""The press: it runs the notebooks, checks the house rules and builds the book.

`python book/press --help` lists the commands. The press imports neither torch nor any slice; a notebook
runs in a process of its own.
"""

from .errors import PressError
from .repository import Chapter, Repository

__all__ = ["Chapter", "PressError", "Repository"]
