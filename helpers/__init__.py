"""The thin helper package that every notebook of *Accelerated Systems, Rebuilt* imports.

Seven modules, no required dependency, and `import helpers` loads none of them: torch, numpy,
matplotlib and IPython are imported when a function first needs them, and nothing is ever installed.

    from helpers import bench, check, data, device, plot, receipts, show
"""

import importlib
from pathlib import Path

__version__ = "0.1.0"
__all__ = ["bench", "check", "data", "device", "plot", "receipts", "root", "show"]


def root(start=None):
    """The repository's folder as a `Path`, or None where there is no checkout.

        root() / "data" / "registry.tsv"

    It is the nearest folder, from `start` (default: the current one) upwards, that holds `_config.yml` and
    `data/registry.tsv`; failing that, the same search from this package's own folder.
    """
    for origin in (Path(start or Path.cwd()), Path(__file__).parent):
        for folder in (origin.resolve(), *origin.resolve().parents):
            if (folder / "_config.yml").is_file() and (folder / "data" / "registry.tsv").is_file():
                return folder
    return None


def __getattr__(name):
    if name in __all__:
        return importlib.import_module(f"{__name__}.{name}")
    raise AttributeError(f"helpers has no {name!r}; it has {', '.join(__all__)}")
