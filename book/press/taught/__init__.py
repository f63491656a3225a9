"""What all chapters teach together: `hearts` sets what each counts beside what a card allows, `lessons` reads why
claims fail, what gains are made of, where the plain way won, what articles misprint; `pages` writes the markers."""

from .lessons import amiss
from .pages import markers

__all__ = ["amiss", "markers"]
