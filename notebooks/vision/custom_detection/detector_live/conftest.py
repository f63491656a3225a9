"""As in `cell_detector`: one thread a test process."""

from cell_detector.conftest import one_thread

__all__ = ["one_thread"]
