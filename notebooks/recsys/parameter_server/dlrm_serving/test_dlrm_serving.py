"""The model learns, the three ways agree, instances share what they should; known AUCs."""

import copy
import threading

import numpy as np
import pytest
import torch
from embedding_hierarchy import ParameterServer
from storage_tiers import Rocks

from . import ClickWorld, auc, hierarchy, tables_on_cpu, train
from .dlrm import Dense, all_on_cpu

DEVICES = ["cpu"] + ["cuda"] * torch.cuda.is_available()


@pytest.fixture(scope="module")
def world():
    return ClickWorld(features=4, categories=500)


@pytest.fixture(scope="module")
def model(world):
    return train(world, 8192, width=8, batch=256)


@pytest.fixture
def table_of(world, model, tmp_path):
    """Makes a deployed table of the model, on a device."""
    weight = model.table.weight.detach()
    with Rocks(tmp_path / "db", {"dlrm.all": 8}) as tier, ParameterServer(tier) as server:
        tier.load("dlrm.all", np.arange(world.rows), weight.numpy())
        yield lambda **how: server.deploy("dlrm.all", cache_rows=200, **how)


def test_the_model_ranks_far_above_chance(world, model):
    numbers, keys, clicked = world.draw(4000, np.random.default_rng(9))
    with torch.inference_mode():
        assert auc(model(numbers, keys), clicked) > 0.68


@pytest.mark.parametrize("device", DEVICES)
def test_the_three_ways_agree(world, model, table_of, device):
    numbers, keys, _ = world.draw(300, np.random.default_rng(3))
    weight = model.table.weight.detach()
    plain = all_on_cpu(model, weight)(numbers, keys)
    apart = tables_on_cpu(model, weight, device)(numbers, keys)
    served = hierarchy(model, table_of(device=device))(numbers, keys)
    # the same float32 products, summed in another order on another device
    torch.testing.assert_close(apart, plain, rtol=0, atol=1e-6)
    torch.testing.assert_close(served, plain, rtol=0, atol=1e-6)


def test_instances_share_the_cache_and_not_the_dense_part(world, model, table_of):
    table = table_of()
    instances = [hierarchy(model, table) for _ in range(2)]
    denses = [one.__wrapped__.__closure__[0].cell_contents for one in instances]
    assert denses[0] is not denses[1] and isinstance(denses[0], Dense)
    wanted = all_on_cpu(model, model.table.weight.detach())
    wrong = []

    def work(score, seed):
        numbers, keys, _ = world.draw(64, np.random.default_rng(seed))
        for _ in range(10):
            if not torch.allclose(score(numbers, keys), wanted(numbers, keys), atol=1e-6):
                wrong.append(seed)

    threads = [
        threading.Thread(target=work, args=(one, seed)) for seed, one in enumerate(instances)
    ]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    assert not wrong and table.counts["requests"] == 20


def test_a_worker_keeps_its_dense_part_when_the_model_s_changes(world, model, table_of):
    changing, weight = copy.deepcopy(model), model.table.weight.detach()
    numbers, keys, _ = world.draw(50, np.random.default_rng(3))
    scores = all_on_cpu(changing, weight), tables_on_cpu(changing, weight, "cpu")
    scores += (hierarchy(changing, table_of()),)
    before = [score(numbers, keys) for score in scores]
    for part in changing.dense.parameters():
        part.zero_()
    for score, told in zip(scores, before, strict=True):
        torch.testing.assert_close(score(numbers, keys), told)


def test_numbers_and_categories_decide_who_clicks(world):
    numbers, keys, clicked = world.draw(40_000, np.random.default_rng(4))
    effects = torch.from_numpy(world.effects)[keys].sum(1)[:, None]
    shown = torch.cat([numbers, effects], 1).double()
    gap = shown[clicked == 1].mean(0) - shown[clicked == 0].mean(0)
    # in small effects a class's mean moves by variance times weight; the sum's weight is 1
    told = gap / shown.var(0)
    wanted = torch.tensor([*world.weights, 1.0], dtype=torch.float64)
    torch.testing.assert_close(told / told[-1], wanted, atol=0.12, rtol=0)


def test_rows_that_training_never_saw_are_zero(world, model):
    seen = np.zeros(world.rows, bool)
    rng = np.random.default_rng([0, 1])
    for _ in range(32):
        seen[world.draw(256, rng)[1].numpy().ravel()] = True
    assert not model.table.weight[torch.from_numpy(~seen)].any() and not seen.all()


@pytest.mark.parametrize(
    ("scores", "clicked", "wanted"),
    [
        ([1, 2], [0, 1], 1),
        ([2, 1], [0, 1], 0),
        ([1, 1], [0, 1], 0.5),
        ([0.1, 0.8, 0.8], [0, 1, 0], 0.75),
    ],
)
def test_aucs_that_are_known(scores, clicked, wanted):
    assert auc(scores, clicked) == wanted
    with pytest.raises(ValueError, match="one kind alone"):
        auc([1, 2], [1, 1])
