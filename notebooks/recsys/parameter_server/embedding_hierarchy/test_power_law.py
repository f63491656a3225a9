"""The law: the article's numbers solved for, sums, draws, and the predicted hit rate."""

import numpy as np
import pytest
import torch
from device_cache import DeviceCache

from . import PowerLaw, exponent_for
from .power_law import power_sum


def test_the_articles_share_is_solved_for():
    s = exponent_for(188_000_000, 305_000, 0.959)
    assert power_sum(305_000, s) / power_sum(188_000_000, s) == pytest.approx(0.959, abs=1e-9)
    assert s == pytest.approx(1.2225, abs=1e-4)


@pytest.mark.parametrize("s", [1.001, 1.3, 3.0])
def test_the_sum_of_the_law_is_the_terms(s):
    assert power_sum(400_000, s) == pytest.approx((np.arange(1, 400_001.0) ** -s).sum(), 1e-11)


def test_draws_follow_the_law_and_hot_keys_are_scattered():
    law = PowerLaw(1000, 1.2)
    counts = np.bincount(law.draw(200_000, np.random.default_rng(0)), minlength=1000)
    share = counts[law.ranks[:50]].sum() / 200_000
    assert share == pytest.approx(power_sum(50, 1.2) / power_sum(1000, 1.2), abs=0.005)
    assert sorted(law.ranks) == list(range(1000)) and list(law.ranks[:3]) != [0, 1, 2]


@pytest.mark.parametrize("draws", [5, 20, 160])
def test_the_predicted_hit_rate_is_a_caches(draws):
    law, rng = PowerLaw(2560, 0.9), np.random.default_rng(1)
    cache, hits, asked = DeviceCache(256, 1), 0, 0
    turns = max(200, 4000 // draws)
    for turn in range(turns):
        keys = torch.from_numpy(np.unique(law.draw(draws, rng)))
        found = cache.query(keys)
        cache.replace(keys[found.missing], torch.zeros(len(found.missing), 1))
        if turn > turns // 2:
            hits, asked = hits + len(keys) - len(found.missing), asked + len(keys)
    assert hits / asked == pytest.approx(law.hit_rate(256, draws), abs=0.03)


def test_a_cache_for_all_keys_hits_always():
    assert PowerLaw(100, 1.2).hit_rate(100) == 1


def test_what_no_law_has_is_refused():
    with pytest.raises(ValueError, match="more than their share"):
        exponent_for(100, 50, 0.4)
    with pytest.raises(ValueError, match="1 or more"):
        PowerLaw(0, 1.2)
