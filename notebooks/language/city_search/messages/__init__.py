"""What a text message wants, where its talk stands, and how the reply is cut."""

from .text_segments import MOST, basic, places, segments

__all__ = ["MOST", "basic", "places", "segments"]
