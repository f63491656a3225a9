"""The recogniser of `streaming` as a service: sound comes over a socket, text goes back.

Article: "Solving Automatic Speech Recognition Deployment Challenges" (NVIDIA Technical Blog).

protocol         what client and server say to each other
access           keys and quotas
session          one client's stream across its connections
service          who is served; sockets, metrics, health
server           the front process behind its port, which others may share
launch           servers as processes: started, awaited, scraped, ended
clients          many clients in real time, and what each of them waited
faults           clients that misbehave on purpose, and a worker that is killed or stopped
triton_backend   the network behind NVIDIA's Triton instead, where it is installed
autoscaling      how many servers a day of calls needs
"""

from .autoscaling import Day, Rule, calls_of_a_day, open_streams, simulate
from .clients import as_pcm16, load, percentiles, speak
from .faults import break_everything, end_worker
from .launch import Server, scrape
from .triton_backend import TritonBackend

__all__ = ["Day", "Rule", "Server", "TritonBackend", "as_pcm16", "break_everything"]
__all__ += ["calls_of_a_day", "end_worker", "load", "open_streams", "percentiles", "scrape"]
__all__ += ["simulate", "speak"]
