"""Average precision as COCO defines it, for boxes and for masks."""

from .evaluate import Scores, evaluate
from .outlines import mask_of, polygon_mask, run_lengths

__all__ = ["Scores", "evaluate", "mask_of", "polygon_mask", "run_lengths"]
