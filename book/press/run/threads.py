"""The environment that says how many threads a process's libraries take, and what they do between two calls.

For a notebook the press's number wins over the shell's, of which nothing is left that tells libraries about threads.
"""

import os
import re

THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS")
ASLEEP = {"OPENBLAS_THREAD_TIMEOUT": "4"}  # else its threads spin on after a product, on what is timed next
SHELL = re.compile("OMP_|GOMP_|OPENBLAS_|.*_THREADS$|.*_DYNAMIC$")  # OMP_THREAD_LIMIT, MKL_DYNAMIC and the like


def environment(threads: int) -> dict[str, str]:
    """The environment of a process whose libraries take so many threads each."""
    others = {name: value for name, value in os.environ.items() if not SHELL.match(name)}
    return others | dict.fromkeys(THREADS, str(threads)) | ASLEEP
