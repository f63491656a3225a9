"""The detector in the reader's browser."""

from .web import LivePage, export, to_onnx

__all__ = ["LivePage", "export", "to_onnx"]
