"""Packed and unpadded equal padded, in loss and gradients; the two wrong packs do not."""

import pytest
import torch
from packed_bert import IGNORED, PackedBert, across_mask, lay_out, loss, loss_by_pack

LENGTHS = [9, 3, 4, 1, 7]
PACKS = [[0, 4], [1, 2, 3]]  # the second row has padding, and rows hold unequal masked tokens
EXACT = 1e-10  # float64 sums of a few hundred terms in another order


def batches():
    random = torch.Generator().manual_seed(1)
    sequences = [torch.randint(1, 64, (n,), generator=random).tolist() for n in LENGTHS]
    labels = [
        [token if i % 3 == 0 else IGNORED for i, token in enumerate(row)] for row in sequences
    ]
    parts = (sequences, labels, [0, 1, 1, 0, 1])
    return {
        "padded": lay_out(*parts, [[i] for i in range(5)], 16),
        "packed": lay_out(*parts, PACKS, 16),
        "unpadded": lay_out(*parts, [[0, 1, 2, 3, 4]], sum(LENGTHS)),
    }


def run(layout, loss=loss, **how):
    torch.manual_seed(0)
    model = PackedBert().double()
    batch = batches()[layout]
    value = loss(model(batch, **how), batch)
    value.backward()
    return value.item(), torch.cat([p.grad.flatten() for p in model.parameters()])


@pytest.mark.parametrize(
    ("layout", "how"), [("packed", {}), ("unpadded", {"unpadded": True}), ("unpadded", {})]
)
def test_loss_and_gradients_equal_the_padded_ones(layout, how):
    value, gradient = run(layout, **how)
    expected, expected_gradient = run("padded")
    assert abs(value - expected) < EXACT
    assert (gradient - expected_gradient).abs().max() < EXACT


def test_attention_across_sequences_changes_the_gradients():
    assert (run("packed", mask=across_mask)[1] - run("padded")[1]).abs().max() > 1e-4


def test_a_loss_weighted_by_pack_changes_the_gradients():
    assert (run("packed", loss=loss_by_pack)[1] - run("padded")[1]).abs().max() > 1e-4


def test_running_positions_change_the_loss():
    batch = batches()["packed"]
    torch.manual_seed(0)
    model = PackedBert().double()
    right = loss(model(batch), batch).item()
    batch.positions.copy_(torch.arange(16).expand(2, 16))
    assert abs(loss(model(batch), batch).item() - right) > 1e-4


@pytest.mark.parametrize(
    ("packs", "length", "words"),
    [
        ([[0]], 4, "exactly once"),
        ([[0, 1, 1]], 9, "exactly once"),
        ([[0, 1]], 2, "fit a row of 2"),
    ],
)
def test_packs_that_do_not_hold_the_sequences_are_refused(packs, length, words):
    with pytest.raises(ValueError, match=words):
        lay_out([[5, 6], [7]], [[5, 6], [7]], [0, 1], packs, length)


def test_unpadded_refuses_padding():
    with pytest.raises(ValueError, match="one row without padding"):
        PackedBert().double()(batches()["packed"], unpadded=True)


def test_no_masked_token_is_refused():
    with pytest.raises(ValueError, match="no token is masked"):
        lay_out([[5]], [[IGNORED]], [0], [[0]], 2)
