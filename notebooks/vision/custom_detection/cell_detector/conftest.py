"""One thread a test process."""

import pytest
import torch


@pytest.fixture(autouse=True, scope="session")
def one_thread():
    """Tests share their machine."""
    torch.set_num_threads(1)
