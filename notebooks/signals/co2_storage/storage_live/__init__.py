"""The trained networks in the reader's browser, with no server: sliders in, pictures out.

The map in `../README.md` says which file answers which question.
"""

from .scene import Scene, knobs, rocks
from .web import LivePage, WebMember, ensemble, export, web_members

__all__ = [
    "LivePage", "Scene", "WebMember", "ensemble", "export", "knobs", "rocks", "web_members",
]  # fmt: skip
