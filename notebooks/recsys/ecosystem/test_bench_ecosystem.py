"""The benches' own checks: what is not the same stops the race."""

import bench_ecosystem
import bench_hamiltonian
import numpy as np
import pytest
import torch
from helpers import check


def test_a_compiled_story_of_another_mean_stops_the_race():
    draw = np.random.default_rng(0)
    first, second = (type("Out", (), {"utility": draw.normal(size=(5, 6))})() for _ in "ab")
    assert bench_ecosystem.same_in_mean(first, second) < 4
    second.utility = second.utility + 3
    with pytest.raises(check.Failed, match="standard errors away"):
        bench_ecosystem.same_in_mean(first, second)


def test_samplers_that_agree_pass_and_others_stop_the_race():
    noise = torch.Generator().manual_seed(0)
    kind = {"generator": noise, "dtype": torch.float64}
    ours, theirs = torch.randn(2, 200, 4, 3, **kind)
    told = bench_hamiltonian.compared(ours, theirs)
    assert told["worst_gap_of_means"] < 4 and 0.8 < told["least_ratio_of_deviations"] < 1.2
    wrong = {
        "means differ": theirs + torch.tensor([0.0, 0.3, 0.0]),
        "deviations differ": theirs * torch.tensor([1.0, 1.0, 1.5]),
        "too few effective": theirs.cumsum(0),
    }
    for message, draws in wrong.items():
        with pytest.raises(check.Failed, match=message):
            bench_hamiltonian.compared(ours, draws)
