"""Annotated photos from the formats that labelling tools write, and what is wrong with them."""

from .problems import Problem, problems
from .reading import read
from .records import Photo, opened

__all__ = ["Photo", "Problem", "opened", "problems", "read"]
