"""A recogniser as a service: sound comes piece by piece over a socket, text goes back while
somebody speaks.

windows          how a stream is cut; windows of many streams as one batch
features         features of sound that has not ended, normalised by what was heard so far
stream_state     one stream: sound in, windows out; answers in, text out
batcher          windows of streams that never meet, gathered for one network; the metrics
worker           the network in a process of its own, which may die
session          the protocol: one client across its connections
server           the front process behind its port, and its drain
launch           servers as processes: started, awaited, scraped, ended
clients          many clients in real time, and what each of them waited
faults           clients that misbehave on purpose, and a worker that is killed
triton_backend   the network behind NVIDIA's Triton instead, where it is installed
autoscaling      how many servers a day of calls needs
"""

from .autoscaling import Day, Rule, calls_of_a_day, open_streams, simulate
from .batcher import Batcher
from .clients import load, percentiles, speak
from .faults import break_everything
from .features import prior_of
from .launch import Server, scrape
from .stream_state import StreamState, run_windows, transcribe
from .triton_backend import TritonBackend
from .windows import StreamOptions

__all__ = [
    "Batcher",
    "Day",
    "Rule",
    "Server",
    "StreamOptions",
    "StreamState",
    "TritonBackend",
    "break_everything",
]
__all__ += [
    "calls_of_a_day",
    "load",
    "open_streams",
    "percentiles",
    "prior_of",
    "run_windows",
    "scrape",
    "simulate",
    "speak",
]
__all__ += ["transcribe"]
