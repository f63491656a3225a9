"""Child processes that do not outlive this one, however it ends."""

import ctypes
import signal
import subprocess
import sys

DIE_WITH_PARENT = 1  # PR_SET_PDEATHSIG of Linux's prctl


def start(command, **how):
    """A `Popen` whose child is killed when this process ends: `start(command, **how)`.

    On Linux alone; elsewhere it is left to `kill`.
    """
    libc = ctypes.CDLL(None) if sys.platform == "linux" else None

    def bind():  # in the child, before its program
        libc.prctl(DIE_WITH_PARENT, signal.SIGKILL)

    return subprocess.Popen(command, preexec_fn=bind if libc else None, **how)
