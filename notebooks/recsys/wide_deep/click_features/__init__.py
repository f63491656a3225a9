"""Raw files to the 29 features of a click model, by three engines that must agree.

The README beside the notebook says which module answers which question.
Engines are imported by name, `from click_features import with_polars`: each costs its library.
"""

from . import spec
from .folder import Folder, paths
from .spec import CATEGORIES, MULTI_HOT, NUMBERS, SETS

__all__ = ["CATEGORIES", "MULTI_HOT", "NUMBERS", "SETS", "Folder", "paths", "spec"]
