"""Who posted a text message, and the door that it comes in by."""

from .signature import Answered, genuine, sign, signed_text
from .text_gateway import door, post

__all__ = ["Answered", "door", "genuine", "post", "sign", "signed_text"]
