"""A recogniser as a service: sound comes piece by piece over a socket, text goes back while
somebody speaks.

windows          how a stream is cut; windows of many streams as one batch
features         features of sound that has not ended, normalised by what was heard so far
stream_state     one stream: sound in, windows out; answers in, text out
batcher          windows of streams that never meet, gathered for one network; the metrics
worker           the network in a process of its own, which may die or hang
protocol         what client and server say to each other
session          one client's stream across its connections
access           keys and quotas
service          who is served; sockets, metrics, health
server           the front process behind its port, which others may share
launch           servers as processes: started, awaited, scraped, ended
clients          many clients in real time, and what each of them waited
faults           clients that misbehave on purpose, and a worker that is killed or stopped
triton_backend   the network behind NVIDIA's Triton instead, where it is installed
autoscaling      how many servers a day of calls needs
"""

from .autoscaling import Day, Rule, calls_of_a_day, open_streams, simulate
from .batcher import Batcher
from .clients import as_pcm16, load, percentiles, speak
from .faults import break_everything, end_worker
from .features import prior_of
from .launch import Server, scrape
from .stream_state import StreamState, run_windows, transcribe
from .triton_backend import TritonBackend
from .windows import StreamOptions

__all__ = ["Batcher", "Day", "Rule", "Server", "StreamOptions", "StreamState", "TritonBackend"]
__all__ += [
    "as_pcm16",
    "break_everything",
    "calls_of_a_day",
    "end_worker",
    "load",
    "open_streams",
]
__all__ += [
    "percentiles",
    "prior_of",
    "run_windows",
    "scrape",
    "simulate",
    "speak",
    "transcribe",
]
