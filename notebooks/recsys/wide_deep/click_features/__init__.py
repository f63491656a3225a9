"""Raw files to the 29 features of a click model, by three engines that must agree.

- `spec`: what is a feature? Names, buckets, thresholds, the split, the hash, what is fitted
- `test_reference`: how does one come about? The plainest loops, row after row
- `polars_tables`: the small tables of displays, pages and ads, on one machine
- `with_polars`: the engine for one machine
- `with_torch`: joins and sums of rows as tensors, for a GPU
- `with_spark`, `spark_log`: the engine for a cluster (a peer: PySpark and Java)
- `buckets`: the hash to touch in the page
- `folder`: what lies in a folder of features, and how does it survive a kill?
- `race`, `bench_scaling`: how long does each engine take, and how much memory?

Engines are imported by name, `from click_features import with_polars`: each costs its library.
"""

from . import spec
from .folder import Folder, paths
from .spec import CATEGORIES, MULTI_HOT, NUMBERS, SETS

__all__ = ["CATEGORIES", "MULTI_HOT", "NUMBERS", "SETS", "Folder", "paths", "spec"]
