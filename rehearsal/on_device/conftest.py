"""These tests run on the pretended device only, in a process of their own: `pytest -p rehearsal.plugin`."""

from rehearsal import device


def pytest_ignore_collect(collection_path, config):
    """Leave them out elsewhere: `rehearsal/test_rehearsal.py` starts that process."""
    return None if device.installed() else True
