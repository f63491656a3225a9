"""As in `two_phase`: one thread a test process."""

from two_phase.conftest import one_thread

__all__ = ["one_thread"]
