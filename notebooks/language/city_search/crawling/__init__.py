"""From a web site or a folder to the text of its pages, again and again."""

from .crawler import Crawler, connect, get
from .folder_sync import sync
from .page_text import PageText, read, tidy
from .pdf_text import Unreadable, pdf_of, pdf_with
from .served_site import HTML, Page, served

__all__ = [
    "HTML", "Crawler", "Page", "PageText", "Unreadable", "connect", "get", "pdf_of", "pdf_with",
    "read", "served", "sync", "tidy",
]  # fmt: skip
