"""How long callers wait: queues with patience, and a crowded day."""

from .queues import Queue, after_answers, endless, erlang_a, erlang_c, simulate

__all__ = ["Queue", "after_answers", "endless", "erlang_a", "erlang_c", "simulate"]
