"""What is in flight: copies that the host may not rely on yet, and bytes that another stream may not read yet.

A card runs streams beside each other and beside the host. Values here are there at once, so a missing wait would never
show. Two records make it show: a copy to the host that does not block holds poison until somebody waits for it, and
pinned memory that is written while its copy may still read it raises; and a tensor written on one stream raises when
another stream uses it without a wait between them.
"""

import threading

import torch

from .counts import ledger


class StreamError(RuntimeError):
    """A race: on a card the values could be wrong, here they would not be."""


class _Copy:
    """A copy in flight, and the streams after whose work it is finished."""

    def __init__(self, stream, finish):
        self.streams, self.finish, self.done = {stream}, finish, False


class InFlight:
    """The copies in flight and, once a second stream exists, where each storage may be read."""

    def __init__(self):
        self.lock = threading.RLock()  # a loader copies on a thread of its own
        self.copies: list[_Copy] = []
        self.ready: dict[int, set] = {}  # of a storage -> streams that may use it
        self.streams = 1

    def down(self, target: torch.Tensor, stream) -> None:
        """The values of a host tensor are on their way: it holds poison until then."""
        kept = target.clone()
        target.fill_(_poison(target.dtype))
        with self.lock:
            self.copies.append(_Copy(stream, lambda: target.copy_(kept)))

    def up(self, source: torch.Tensor, stream) -> None:
        """Pinned memory is being read: it may not change until then."""
        kept, place = source.clone(), ledger.place()

        def finish():
            if not torch.equal(_raw(source), _raw(kept)):
                raise StreamError(
                    f"{place}: pinned memory was written while a copy that does not block may still read it; "
                    "wait for the copy's event or stream first"
                )

        with self.lock:
            self.copies.append(_Copy(stream, finish))

    def finish(self, stream=None, only=None) -> None:
        """The host waited for a stream (None: for all), or for the copies `only`."""
        with self.lock:
            passed = only if only is not None else [c for c in self.copies if stream is None or stream in c.streams]
            over = [copy for copy in self.copies if copy in passed]
            self.copies = [copy for copy in self.copies if copy not in passed]
            if only is None:
                for key in [key for key, seen in list(self.ready.items()) if stream is None or stream in seen]:
                    self.ready.pop(key, None)  # what the host knows to be written, every later launch may read
        for copy in over:
            copy.finish()

    def mark(self, stream) -> tuple[list, list]:
        """What an event on this stream stands for: copies, and storages as they are written now."""
        copies = [copy for copy in self.copies if stream in copy.streams]
        return copies, [written for written in list(self.ready.items()) if stream in written[1]]

    def wait(self, stream, mark: tuple[list, list]) -> None:
        """`stream` goes on after what the mark stands for."""
        for copy in mark[0]:
            copy.streams.add(stream)
        for _, seen in mark[1]:
            seen.add(stream)

    def passed(self, mark: tuple[list, list]) -> None:
        """The host waited for what the mark stands for."""
        self.finish(only=mark[0])
        for key, seen in mark[1]:
            if self.ready.get(key) is seen:  # not written anew since
                self.ready.pop(key, None)

    def freed(self, key: int) -> None:
        """A storage is gone, and the next one may get its address."""
        self.ready.pop(key, None)

    def wrote(self, key: int, stream) -> None:
        """A storage was written on a stream."""
        if torch._C._current_graph_task_id() != -1:
            self.ready.pop(key, None)  # autograd brings its streams and the caller's together
        elif self.streams > 1:
            self.ready[key] = {stream}

    def uses(self, key: int, stream) -> None:
        """Raise StreamError where a storage was written on another stream and nothing waited."""
        seen = self.ready.get(key)
        if seen is not None and stream not in seen and torch._C._current_graph_task_id() == -1:
            raise StreamError(
                f"{ledger.place()}: a tensor written on another stream is used without a wait between the streams; "
                "call wait_stream or wait_event first"
            )


def _poison(dtype: torch.dtype):
    if dtype.is_floating_point or dtype.is_complex:
        return float("nan")
    return True if dtype == torch.bool else torch.iinfo(dtype).max


def _raw(x: torch.Tensor) -> torch.Tensor:
    return x.detach().contiguous().view(-1).view(torch.uint8)


in_flight = InFlight()
