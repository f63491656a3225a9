"""Start of `python book/press`: put `book/` and the root on the path instead of this folder, then run the command."""

import signal
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:] = [str(HERE.parent), str(HERE.parents[1])] + [
    entry for entry in sys.path if Path(entry or ".").resolve() != HERE
]

from press.cli import main  # noqa: E402  the path has to be right first

if __name__ == "__main__":
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # whatever it started is ended, as after Ctrl-C
    sys.exit(main())
