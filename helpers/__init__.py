"""The thin helper package that every notebook of *Accelerated Systems, Rebuilt* imports.

No required dependency: torch, numpy, matplotlib and IPython are imported when first needed, nothing is installed.
"""

from pathlib import Path

__version__ = "0.2.0"
__all__ = ["bench", "calibration", "cards", "check", "data", "device", "plot", "preflight", "receipts", "root", "show"]


def root():
    """The repository's folder (a `Path`), or None where there is no checkout.

    The nearest folder holding `_config.yml` and `data/registry.tsv`, from the current one or from this package up.
    """
    for origin in (Path.cwd() / "_", Path(__file__).resolve()):
        for folder in origin.parents:
            if (folder / "_config.yml").is_file() and (folder / "data" / "registry.tsv").is_file():
                return folder
    return None
