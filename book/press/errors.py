"""The one error that a user can mend, which the press prints without a traceback; and commands whose failure is one."""

import contextlib
import subprocess
from pathlib import Path


class PressError(Exception):
    """Says what is wrong, what is allowed and how to mend it."""


def finished(problem: str, *command: object, **options: object) -> str:
    """What a command printed; PressError with the problem and its last words unless it ended well, and in time."""
    how = {"capture_output": True, "text": True} | ({} if "input" in options else {"stdin": subprocess.DEVNULL})
    try:
        done = subprocess.run(list(map(str, command)), **how, **options)
    except subprocess.TimeoutExpired as error:
        raise PressError(f"{problem}: not done after {error.timeout:.0f} s") from None
    if done.returncode:
        raise PressError(f"{problem}:\n{(done.stderr or done.stdout).strip()[-3000:]}")
    return done.stdout


def git(folder: Path, *words: str) -> str | None:
    """What git prints in a folder; None where it fails, or is not there."""
    with contextlib.suppress(OSError, PressError):
        return finished("git", "git", *words, cwd=folder, timeout=60)
    return None
