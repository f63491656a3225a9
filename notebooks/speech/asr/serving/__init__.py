"""The recogniser of `streaming` as a service: sound comes over a socket, text goes back.

In reading order: protocol, session, service, server, launch, clients, triton_backend,
autoscaling."""

from .autoscaling import Day, Rule, calls_of_a_day, open_streams, simulate
from .clients import as_pcm16, break_everything, end_worker, load, percentiles, speak
from .launch import Server, scrape
from .triton_backend import TritonBackend

__all__ = ["Day", "Rule", "Server", "TritonBackend", "as_pcm16", "break_everything"]
__all__ += ["calls_of_a_day", "end_worker", "load", "open_streams", "percentiles", "scrape"]
__all__ += ["simulate", "speak"]
