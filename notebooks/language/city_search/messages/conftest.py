"""An hour that a test moves."""

import pytest


class Hour:
    at = 0.0

    def __call__(self):
        return self.at


@pytest.fixture
def hour():
    return Hour()
