"""The trained networks in the reader's browser, with no server: sliders in, pictures out.

What do I ask, and of which file?

    scene             from the sliders to a site as the networks know it, in tensors
    web               the networks as ONNX files, and the pack that the page gets
    storage_live.js   the page itself: sliders, pictures, the worker that computes
    storage_live.css  its look
"""

from .scene import Scene, knobs, rocks
from .web import LivePage, WebMember, ensemble, export, web_members

__all__ = [
    "LivePage", "Scene", "WebMember", "ensemble", "export", "knobs", "rocks", "web_members",
]  # fmt: skip
