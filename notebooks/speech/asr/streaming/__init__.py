"""A recogniser for sound that is still coming, and the network that many such streams share.

In reading order: windows, features, stream_state, batcher, worker, context_slider."""

from .batcher import Batcher, DeadlineMissed, QueueFull, WorkerFailed
from .features import prior_of
from .stream_state import StreamState, run_windows, transcribe
from .windows import StreamOptions, computed
from .worker import WorkerPool, environment, warmed

__all__ = ["Batcher", "DeadlineMissed", "QueueFull", "StreamOptions", "StreamState"]
__all__ += ["WorkerFailed", "WorkerPool", "computed", "environment", "prior_of", "run_windows"]
__all__ += ["transcribe", "warmed"]
