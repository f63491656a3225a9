r"""The judge: whether two answers are the same, or that this was not judged.

In the order of the published ruler: first the strings, in Minerva's normal form (`tex_forms`);
then, where these differ, parts of lists, and computer algebra in a process of its own that is
killed when its time is over. A string check that came second would call [2,5) unequal to
itself, for the grammar does not know intervals.

None, 'not judged', is neither True nor False: TeX that does not end, an answer as long as a
book, a power that explodes, an expression that no rule decides. It never votes, never counts
as right. How often it comes is told beside every score.
"""

import atexit
import json
import math
import os
import selectors
import subprocess
import sys
import threading
import time
from pathlib import Path

from tex_forms import balanced, number, parts_of, published, readable

LONGEST, MOST_PARTS = 1_000, 20  # characters of an answer, parts of a list
START_S = 120.0
WORKER = Path(__file__).with_name("algebra_worker.py")


class Worker:
    """A process of `algebra_worker`, started when first asked, killed when it is late."""

    def __init__(self):
        self.process, self.owner, self.lock = None, None, threading.Lock()

    def start(self):
        """None; there is a living worker. RuntimeError where none can be had."""
        if self.process and self.process.poll() is None and self.owner == os.getpid():
            return
        if self.owner == os.getpid():
            self.kill()
        command = [sys.executable, "-X", "utf8", str(WORKER)]
        own = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")
        pipe = subprocess.PIPE
        self.process = subprocess.Popen(
            command,
            stdin=pipe,
            stdout=pipe,
            stderr=subprocess.DEVNULL,
            env={**os.environ, **own},
        )
        self.owner = os.getpid()
        if (said := self._line(START_S)) != "ready":
            self.kill()
            needs = "it needs sympy 1.14 and antlr4-python3-runtime 4.11"
            raise RuntimeError(f"the algebra does not start: {said or 'no word'}; {needs}")

    def ask(self, a: str, b: str, seconds: float):
        """The verdict on two expressions, None and a dead worker after so many seconds."""
        try:
            self.process.stdin.write((json.dumps([a, b, seconds]) + "\n").encode())
            self.process.stdin.flush()
        except OSError:  # it was killed between two questions
            self.kill()
            return None
        return self._line(seconds)

    def _line(self, seconds):
        """What the next line says; None, and the worker is killed, where none comes in time."""
        end, got, pipe = time.monotonic() + seconds, b"", self.process.stdout
        with selectors.DefaultSelector() as waiting:
            waiting.register(pipe, selectors.EVENT_READ)
            while not got.endswith(b"\n"):
                left = end - time.monotonic()
                more = (
                    os.read(pipe.fileno(), 4096) if left > 0 and waiting.select(left) else b""
                )
                if not more:
                    self.kill()
                    return None
                got += more
        try:
            return json.loads(got)
        except ValueError:  # whoever wrote that is no worker of ours
            return self.kill()

    def kill(self):
        """None; this worker is no more."""
        if self.process:
            self.process.kill()
            self.process.wait()
            self.process.stdin.close()
            self.process.stdout.close()
        self.process = None


class Clock:
    """What is left of a call's seconds; a worker's start moves the end."""

    def __init__(self, seconds):
        self.end = time.monotonic() + seconds

    def left(self):
        return self.end - time.monotonic()


WORKERS = Worker()
atexit.register(lambda: WORKERS.owner == os.getpid() and WORKERS.kill())


def equivalent(a: str, b: str, seconds: float = 5.0) -> bool | None:
    r"""True or False, or None for 'not judged': `equivalent(r"\frac{1}{2}", "0.5", 5)` is True.

    Plain TeX, without dollars. `seconds` bounds the whole call, the start of a worker apart.
    ValueError for what is no text, or no positive finite time.
    """
    if not (isinstance(a, str) and isinstance(b, str)):
        raise ValueError(
            f"{type(a).__name__} and {type(b).__name__} came; two texts are wanted"
        )
    if not (isinstance(seconds, int | float) and 0 < seconds < math.inf):
        raise ValueError(f"seconds={seconds}: a positive finite number is wanted")
    clock = Clock(seconds)
    if max(len(a), len(b)) > LONGEST or not (balanced(a) and balanced(b)):
        return None
    if not (a.strip() and b.strip()):
        return None
    if (form := published(a)) and form == published(b) and balanced(form):
        return True
    pairs, unordered = _pairs(readable(a), readable(b))
    if not isinstance(pairs, list):
        return pairs
    return _judged(pairs, unordered, clock)


def _pairs(a: str, b: str):
    """(rows of pairs to compare, whether their order is free), or (a verdict, False)."""
    if not (a and b):
        return None, False
    one, other = parts_of(a), parts_of(b)
    if (one.open, one.close, len(one.parts)) != (other.open, other.close, len(other.parts)):
        return False, False
    if len(one.parts) > MOST_PARTS or not all(one.parts + other.parts):
        return None, False
    free = len(one.parts) > 1 and one.open in ("", r"\{")  # a set, or roots one after another
    rows = [[(x, y) for y in other.parts] for x in one.parts]
    return (rows if free else [[row[at]] for at, row in enumerate(rows)]), free


def _judged(rows, unordered, clock):
    """All rows hold a pair that is the same, each with a partner of its own."""
    verdict, taken = True, set()
    for row in rows:
        found, at = False, None
        for column, pair in enumerate(row):
            if column in taken and unordered:
                continue
            same = _plain(*pair)
            if same is NotImplemented:
                same = _algebra(*pair, clock)
            if same is True:
                found, at = True, column
                break
            found = None if same is None else found
        if found is False:
            return False
        verdict = None if found is None else verdict
        taken.add(at)
    return verdict


def _plain(x: str, y: str):
    """What strings alone decide; NotImplemented where algebra is asked."""
    if x.replace(" ", "") == y.replace(" ", ""):
        return True
    values = [number(one) for one in (x, y)]
    if None not in values:
        return values[0] == values[1]
    wordy = [word(one) for one in (x, y)]
    if x.casefold() == y.casefold() and x.isalpha():  # a word, or letters of two kinds
        return True if all(wordy) else None
    if all(wordy):  # the same letters in another order may be a product: abcd, dcba
        return None if sorted(x) == sorted(y) else False
    return False if any(wordy) else NotImplemented


def word(text: str) -> bool:
    """Whether this is a word, no product of letters: four letters or more, no command."""
    letters = text.replace(" ", "").replace("-", "").replace(".", "")
    return len(letters) > 3 and letters.isalpha()


def _algebra(x, y, clock):
    if not WORKERS.lock.acquire(timeout=max(0.0, clock.left())):
        return None
    try:
        if clock.left() <= 0:  # no worker is started for a question that has no time
            return None
        before = time.monotonic()
        WORKERS.start()
        clock.end += time.monotonic() - before  # the start is not counted
        return WORKERS.ask(x, y, clock.left())
    finally:
        WORKERS.lock.release()
