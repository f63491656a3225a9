"""What tests of devices share: two cards, and machines that have them."""

from types import SimpleNamespace

import pytest

from helpers import device

T4 = SimpleNamespace(name="Tesla T4", total_memory=15.8e9, major=7, minor=5)
H200 = SimpleNamespace(name="NVIDIA H200", total_memory=150e9, major=9, minor=0)


@pytest.fixture
def untouched(monkeypatch):
    """None; no tier was chosen before, here or in the environment."""
    monkeypatch.delenv("REBUILT_TIER", raising=False)
    monkeypatch.setattr(device, "_state", SimpleNamespace(tier=None))


@pytest.fixture
def gpu(monkeypatch):
    """A function that sets the GPU which torch sees, or None."""
    return lambda found: monkeypatch.setattr(device, "gpu", lambda: found)
