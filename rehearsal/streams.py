"""What is in flight: copies that the host may not rely on yet, and storages that another stream may still use.

A card runs streams beside each other and beside the host. Values here are there at once, so a missing wait would never
show. Four records make it show. A copy to the host that does not block holds poison until somebody waits for it.
Pinned memory that is written while its copy may still read it raises. So does a stream that uses what another one
wrote, or writes what another one reads, without a wait between them. So does memory that is given out again while
another stream may still use it, unless `record_stream` keeps it back, as on a card.
"""

import threading
import weakref

import torch

from .counts import ledger


class _Now(threading.local):
    """What the stand-ins set: the generator of the device, for all threads; the current stream, of each thread.

    `shapes`: whether tensors have shapes only (`device.by_shapes`), also for all threads.
    """

    generator, stream, generators, shapes = None, None, weakref.WeakValueDictionary(), False


now = _Now()


class StreamError(RuntimeError):
    """A race: on a card the values could be wrong, here they would not be."""


class _Copy:
    """A copy in flight, and the streams after whose work it is finished."""

    def __init__(self, stream, finish):
        self.streams, self.finish = {stream}, finish


class _Use:
    """What a stream did last with a storage, and the streams whose later work follows it; `over`: the host knows."""

    def __init__(self, stream):
        self.stream, self.after, self.over = stream, {stream}, False

    def done_for(self, stream) -> bool:
        """Whether later work of a stream comes after it."""
        return self.over or stream in self.after


class _Freed:
    """Memory that went back to the stream that it was made on, and what others may still do with it."""

    def __init__(self, stream, size: int, uses: list[_Use]):
        self.stream, self.size, self.uses = stream, size, uses


class InFlight:
    """The copies in flight, and of each storage its last write, the reads since, and who may use it when freed."""

    def __init__(self):
        self.lock = threading.RLock()  # a loader copies on a thread of its own
        self.copies: list[_Copy] = []
        self.written: dict[int, _Use] = {}
        self.read: dict[int, dict] = {}  # of a storage: stream -> its last read since the last write
        self.left: list[_Freed] = []
        self.streams = 1

    def down(self, target: torch.Tensor, stream) -> None:
        """The values of a host tensor are on their way: it holds poison until then, a bool its opposite."""
        kept = target.clone()
        target.copy_(~kept) if target.dtype == torch.bool else target.fill_(_poison(target.dtype))
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

    def finish(self, stream=None) -> None:
        """The host waited for a stream (None: for all)."""
        with self.lock:
            copies = [copy for copy in self.copies if stream is None or stream in copy.streams]
            if stream is None or self.streams == 1:
                for use in self._uses():
                    use.over = True
                self.written.clear(), self.read.clear(), self.left.clear()
                uses = []
            else:
                uses = [use for use in self._uses() if stream in use.after]
        self.passed((copies, uses))

    def mark(self, stream) -> tuple[list, list]:
        """What an event on this stream stands for: copies, and what storages are used for until now."""
        with self.lock:
            copies = [copy for copy in self.copies if stream in copy.streams]
            return copies, [use for use in self._uses() if stream in use.after]

    def wait(self, stream, mark: tuple[list, list]) -> None:
        """`stream` goes on after what the mark stands for."""
        for copy in mark[0]:
            copy.streams.add(stream)
        for use in mark[1]:
            use.after.add(stream)

    def passed(self, mark: tuple[list, list]) -> None:
        """The host waited for what the mark stands for."""
        for use in mark[1]:
            use.over = True
        with self.lock:
            over = [copy for copy in self.copies if copy in mark[0]]
            self.copies = [copy for copy in self.copies if copy not in mark[0]]
        for copy in over:
            copy.finish()

    def _uses(self) -> list[_Use]:
        """All that is recorded and not over."""
        found = [*self.written.values(), *(use for freed in self.left for use in freed.uses)]
        found += [use for readers in list(self.read.values()) for use in list(readers.values())]
        return [use for use in found if not use.over]

    def wrote(self, key: int, stream) -> None:
        """A storage was written on a stream; StreamError where another stream may still read it."""
        if in_backward():
            self.written.pop(key, None)  # autograd brings its streams and the caller's together
            self.read.pop(key, None)
            return
        if any(not use.done_for(stream) for use in self.read.pop(key, {}).values()):
            _race("a tensor is written while another stream may still read it")
        self.written[key] = _Use(stream)

    def uses(self, key: int, stream) -> None:
        """A storage is read on a stream; StreamError where another one wrote it and nothing waited."""
        if in_backward():
            return
        before = self.written.get(key)
        if before is not None and not before.done_for(stream):
            _race("a tensor written on another stream is used without a wait between the streams")
        self.read.setdefault(key, {})[stream] = _Use(stream)

    def freed(self, key: int, stream, size: int, recorded: set) -> None:
        """A storage is gone; its memory goes back to `stream`, where it was made, when `recorded` ones are over."""
        uses = [*self.read.pop(key, {}).values(), *filter(None, [self.written.pop(key, None)])]
        uses = [use for use in uses if use.stream not in recorded and not use.done_for(stream)]
        if stream is not None and uses:
            self.left.append(_Freed(stream, size, uses))

    def given(self, stream, size: int) -> None:
        """Memory is given out on a stream; StreamError where it may be what another one still uses."""
        if not self.left or in_backward():
            return
        with self.lock:
            self.left = [one for one in self.left if not all(use.done_for(one.stream) for use in one.uses)]
            taken = [one for one in self.left if one.stream is stream and size <= one.size]
            self.left = [one for one in self.left if one not in taken]
        if taken:
            _race("memory is given out again that another stream may still use; call record_stream before it is freed")


def in_backward() -> bool:
    """Whether autograd goes back through a graph now."""
    return torch._C._current_graph_task_id() != -1


def _race(what: str) -> None:
    hint = "" if "call" in what else "; call wait_stream or wait_event first"
    raise StreamError(f"{ledger.place()}: {what}{hint}")


def _poison(dtype: torch.dtype):
    return float("nan") if dtype.is_floating_point or dtype.is_complex else torch.iinfo(dtype).max


def _raw(x: torch.Tensor) -> torch.Tensor:
    return x.detach().contiguous().view(-1).view(torch.uint8)


in_flight = InFlight()
