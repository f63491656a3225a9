"""Start of `python book/press`: put `book/` on the path instead of the press folder, then run the command."""

import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:] = [str(HERE.parent)] + [entry for entry in sys.path if Path(entry or ".").resolve() != HERE]

from press.cli import main  # noqa: E402  the path has to be right first

if __name__ == "__main__":
    sys.exit(main())
