"""The Wide & Deep model: fed from batches on disk, trained by two optimisers, ranked by MAP@12.

The README beside the notebook says which module answers which question.
`ddp` is a program as well, so it is imported by name: `from click_model import ddp`.
"""

from .batches import Batches, write_batches
from .loader import Loader, LoaderReport
from .network import Deep, Sizes, Tables, Wide, WideDeep
from .optimisers import Ftrl, RmsProp
from .ranking import average_precision, map_at_k, popularity_scores, random_scores
from .training import Epoch, Options, Rows, Trainer, evaluate, fit, predict, schedule, whole

__all__ = ["Batches", "write_batches", "Loader", "LoaderReport"]
__all__ += ["Deep", "Sizes", "Tables", "Wide", "WideDeep", "Ftrl", "RmsProp"]
__all__ += ["average_precision", "map_at_k", "popularity_scores", "random_scores", "Epoch"]
__all__ += ["Options", "Rows", "Trainer", "evaluate", "fit", "predict", "schedule", "whole"]
