"""The network has the shapes and the residual path that it promises."""

import pytest
import torch
from small_resnet import Block, SmallResNet


@pytest.mark.parametrize(("channels", "size"), [(1, 28), (3, 32), (1, 27)])
def test_images_become_logits(channels, size):
    model = SmallResNet(width=4, channels=channels, classes=7).eval()
    x_BCHW = torch.randn(3, channels, size, size)
    assert model(x_BCHW).shape == (3, 7) and model.features(x_BCHW).shape == (3, 16)


def test_a_block_whose_last_convolution_is_zero_passes_its_input_on():
    block, x_BCHW = Block(4, 4, 1).eval(), torch.randn(2, 4, 6, 6)
    block.conv2.weight.data.zero_()
    assert torch.equal(block(x_BCHW), x_BCHW)
    assert block.shortcut is None and Block(4, 8, 2)(x_BCHW).shape == (2, 8, 3, 3)


def test_one_image_s_answer_does_not_depend_on_the_others():
    model, x_BCHW = SmallResNet(width=4).eval(), torch.randn(5, 1, 28, 28)
    torch.testing.assert_close(model(x_BCHW)[2:3], model(x_BCHW[2:3]), atol=1e-5, rtol=1e-4)


def test_dropout_acts_in_training_only():
    torch.manual_seed(0)
    model, x_BCHW = SmallResNet(width=4, dropout=0.5), torch.randn(8, 1, 28, 28)
    assert not torch.equal(model(x_BCHW), model(x_BCHW))
    assert torch.equal(model.eval()(x_BCHW), model(x_BCHW))
