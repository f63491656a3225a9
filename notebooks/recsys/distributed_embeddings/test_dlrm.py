"""DLRM beside its plainest form, and what a run of the benches keeps."""

import pytest
import torch
from click_logs import World, shrunk_rows
from dlrm import SMALL, Dlrm, PlainTables, train_step
from hybrid import DistributedEmbedding, average_gradients
from placement import plan
from synthetic_models import DLRM_TERABYTE

ROWS = shrunk_rows(DLRM_TERABYTE, 200_000)
SHAPES = [(rows, SMALL.width) for rows in ROWS]


def both():
    torch.manual_seed(0)
    plain, merged = (
        Dlrm(PlainTables(SHAPES), 26),
        Dlrm(DistributedEmbedding(plan(SHAPES, 1)), 26),
    )
    merged.load_state_dict(plain.state_dict() | merged.state_dict(), strict=False)
    for part in ("bottom", "top"):
        getattr(merged, part).load_state_dict(getattr(plain, part).state_dict())
    merged.tables.set_weights(plain.tables.get_weights())
    return plain, merged


def test_the_products_of_all_pairs_equal_two_loops():
    model = Dlrm(torch.nn.Identity(), 2, SMALL._replace(width=3, bottom=(4,), top=(5,)))
    numbers, vectors = torch.randn(2, 13), [torch.randn(2, 3), torch.randn(2, 3)]
    got = model.combined(numbers, vectors)
    for at in range(2):
        own = [model.bottom(numbers)[at], vectors[0][at], vectors[1][at]]
        pairs = [own[a] @ own[b] for a in range(3) for b in range(a)]
        want = model.top(torch.cat([own[0], torch.stack(pairs)]))
        torch.testing.assert_close(got[at], want[0])


def test_merged_tables_train_as_plain_ones_do():
    plain, merged = both()
    clicks = World(ROWS).draw(192)
    for at in range(3):
        part = clicks.part(64 * at, 64 * at + 64)
        losses = [
            train_step(model, part, torch.optim.SGD(model.parameters(), 0.1), average_gradients)
            for model in (plain, merged)
        ]
        torch.testing.assert_close(*losses)
    for a, b in zip(plain.tables.get_weights(), merged.tables.get_weights(), strict=True):
        torch.testing.assert_close(a, b)


def test_a_mean_of_plain_tables_is_a_mean():
    tables = PlainTables([(5, 2, "mean")])
    from lookup import pack

    got = tables(pack([[[1, 3], []]]))[0]
    torch.testing.assert_close(got[0], tables.bags[0].weight[[1, 3]].mean(0))
    assert got[1].tolist() == [0, 0]


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU here")
def test_offloaded_tables_give_the_same_on_a_gpu():
    torch.manual_seed(0)
    own = plan(SHAPES, 1, device_limit=sum(ROWS) * 16 - max(ROWS) * 16)
    split = DistributedEmbedding(own).to("cuda")
    whole = DistributedEmbedding(plan(SHAPES, 1))
    whole.set_weights(split.get_weights())
    bags = World(ROWS).draw(32)
    for a, b in zip(split(bags.to("cuda").bags()), whole(bags.bags()), strict=True):
        torch.testing.assert_close(a.cpu(), b)
