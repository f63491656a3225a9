"""Start of `python book/press`: put `book/` and the root on the path instead of this folder, then run the command."""

import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:] = [str(HERE.parent), str(HERE.parents[1])] + [
    entry for entry in sys.path if Path(entry or ".").resolve() != HERE
]

from press.cli import main  # noqa: E402  the path has to be right first

if __name__ == "__main__":
    sys.exit(main())
