import time

import numpy as np
import psutil
import pytest
import torch
from leak_clinic import LEAKS, growth, private_growth, worker_growth


def made(leak, cured):
    model = torch.nn.Sequential(torch.nn.Linear(20, 300), torch.nn.ReLU())
    return LEAKS[leak](model, torch.ones(10, 20), cured=cured)


@pytest.mark.parametrize("leak", LEAKS)
def test_a_leak_grows_by_at_least_an_activation(leak):
    assert growth(made(leak, cured=False)) >= 4 * 10 * 300


@pytest.mark.parametrize("leak", LEAKS)
def test_a_cured_loop_does_not_grow(leak):
    assert growth(made(leak, cured=True)) < 100


class Doubled(torch.autograd.Function):
    @staticmethod
    def forward(held, x):
        held.save_for_backward(x)
        return 2 * x

    @staticmethod
    def backward(held, grad):
        return 2 * grad


def chosen(x):
    return x[torch.arange(1000)]  # keeps the 8,000 bytes of numbers, in a tuple


@pytest.mark.parametrize(
    ("call", "least"), [(lambda x: Doubled.apply(x * 1), 4000), (chosen, 8000)]
)
def test_what_a_graph_alone_holds_is_seen(call, least):
    x, losses = torch.ones(1000, requires_grad=True), []
    assert growth(lambda step: losses.append(call(x).sum())) >= least


def test_one_step_is_refused():
    with pytest.raises(ValueError, match="2 or more"):
        growth(lambda step: None, steps=1)


def names():
    return [f"photos/{i:040d}.jpg" for i in range(100_000)]


def test_a_worker_copies_a_list_of_names_as_it_reads():
    # each name has its own count of references, about 100 bytes apart: every page is written
    assert worker_growth(names()) > 5_000_000


def test_a_worker_reads_an_array_of_names_and_copies_little():
    assert worker_growth(np.array(names(), dtype="S60")) < 1_000_000


def test_a_fork_that_never_ends_is_ended_and_told():
    began, before = time.monotonic(), psutil.Process().children()
    with pytest.raises(TimeoutError, match=r"not done after 0\.5 s"):
        private_growth(lambda: time.sleep(60), seconds=0.5)
    assert time.monotonic() - began < 20
    assert psutil.Process().children() == before, "no child is left"
