"""What tests of streams and of serving share."""

import pytest
import torch
from quartznet import QuartzNet

torch.set_num_threads(
    1
)  # two processes of tests share two cores; small products gain nothing from a second


@pytest.fixture(scope="module")
def loud_model():
    """A small random QuartzNet with louder logits, so that it writes many letters."""
    torch.manual_seed(0)
    model = QuartzNet.build("5x1", width=0.05, field=0.1).eval()
    with torch.no_grad():
        model.decoder.weight.mul_(30)
    return model
