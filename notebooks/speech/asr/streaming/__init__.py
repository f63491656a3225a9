"""A recogniser for sound that is still coming, and the network that many such streams share.

Article: "Solving Automatic Speech Recognition Deployment Challenges" (NVIDIA Technical Blog).

windows          how a stream is cut; windows of many streams as one batch
features         features of sound that has not ended, normalised by what was heard so far
stream_state     one stream: sound in, windows out; answers in, text out
batcher          windows of streams that never meet, gathered for one network; the metrics
worker           the network in a process of its own, which may die or hang
context_slider   what less or more right context does, to touch in the page
"""

from .batcher import Batcher, DeadlineMissed, QueueFull, WorkerFailed
from .features import prior_of
from .stream_state import StreamState, run_windows, transcribe
from .windows import StreamOptions, computed
from .worker import WorkerPool, environment, warmed

__all__ = ["Batcher", "DeadlineMissed", "QueueFull", "StreamOptions", "StreamState"]
__all__ += ["WorkerFailed", "WorkerPool", "computed", "environment", "prior_of", "run_windows"]
__all__ += ["transcribe", "warmed"]
