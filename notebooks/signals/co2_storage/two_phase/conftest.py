"""One thread a test process: the tests' fields are too small to gain from a second one."""

import pytest
import torch


@pytest.fixture(scope="module", autouse=True)
def one_thread():
    """None; torch works on one thread while a module's tests run."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)
