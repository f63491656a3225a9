"""The scorer's distances on vectors whose offset is known; a small scorer learns a toy."""

import numpy as np
import pytest
import torch
from torch.nn import functional as F

from . import (
    SyncScorer,
    offset_distances,
    offset_distances_reference,
    silence_overlap,
    sync_scores,
    train_scorer,
)


def unit(*shape):
    return F.normalize(torch.randn(*shape, generator=torch.Generator().manual_seed(0)), dim=-1)


@pytest.mark.parametrize("late", [-7, 0, 3])
def test_a_delay_is_found_where_it_is(late):
    seen = unit(60, 8)
    found = offset_distances(seen, torch.roll(seen, late, 0))
    assert int(found.argmin()) - 15 == late and found.min() < 0.2 < 1 < found.median()


def test_distances_equal_the_plain_loops():
    seen, heard = unit(2, 19, 4).double()
    plain = offset_distances_reference(seen.tolist(), heard.tolist())
    assert np.allclose(offset_distances(seen, heard).numpy(), plain)


@pytest.mark.parametrize("shapes", [((15, 4), (15, 4)), ((40, 4), (41, 4))])
def test_refuses_clips_too_short_or_of_other_lengths(shapes):
    with pytest.raises(ValueError, match="more than 15 moments"):
        offset_distances(*(torch.zeros(shape) for shape in shapes))


def toy(count, late=0):
    """Clips whose one bright pixel row is where the sound's band is, `late` frames later."""
    items = []
    for seed in range(count):
        rng = np.random.default_rng(seed)
        place = rng.integers(8, size=30)
        video = np.zeros((30, 32, 32), np.uint8)
        mel = np.full((120, 16), -1.0, np.float32)
        for t in range(30):
            video[t, 4 * place[t] : 4 * place[t] + 4] = 255
            mel[4 * t : 4 * t + 4, 2 * place[(t - late) % 30]] = 1
        items.append({"video": torch.from_numpy(video), "mel": torch.from_numpy(mel)})
    return items


def test_a_scorer_learns_what_belongs_together_and_tells_a_late_sound():
    scorer, found = train_scorer(toy(8), steps=30, batch=4)
    assert found > 0.5
    right, late = (sync_scores(scorer, **_named(toy(1, by)[0])) for by in (0, 4))
    assert right["offset"] == 0 and late["offset"] == 4 and right["confidence"] > 0.2


def test_a_seed_draws_the_judges_first_weights():
    one, same, other = (
        train_scorer(toy(2), steps=1, batch=2, seed=seed)[0].seen.weight for seed in (0, 0, 1)
    )
    assert torch.equal(one, same) and not torch.equal(one, other)


def _named(item):
    return {"video_TPP": item["video"], "mel_SM": item["mel"]}


def test_a_scorer_looks_at_five_frames_and_a_fifth_of_a_second():
    seen, heard = SyncScorer(16)(torch.rand(2, 20, 32, 32), torch.rand(2, 80, 16))
    assert seen.shape == heard.shape == (2, 16, 32) and torch.allclose(
        seen.norm(dim=-1), torch.ones(2, 16)
    )


def test_pauses_overlap_where_both_are_silent():
    tone, rest = np.full(1600, 0.1), np.zeros(1600)
    true = np.concatenate([tone, rest, rest, tone])
    assert silence_overlap(true, true) == 1
    assert silence_overlap(np.concatenate([tone, rest, tone, tone]), true) == 0.5
    assert silence_overlap(np.concatenate([rest, tone, tone, rest]), true) == 0


@pytest.mark.parametrize("said", [np.zeros(800), np.full(1600, np.nan)])
def test_silence_overlap_refuses_other_lengths_and_what_is_not_finite(said):
    with pytest.raises(ValueError, match="two finite ones of one length"):
        silence_overlap(said, np.ones(1600))


def test_scores_are_the_least_distance_where_it_lies_and_how_far_below_the_median():
    seen = unit(40, 8)

    def scorer(video, mel):  # the sound is 3 frames late
        return seen[None], torch.roll(seen, 3, 0)[None]

    found = sync_scores(scorer, torch.zeros(44, 4, 4), torch.zeros(176, 2))
    curve = offset_distances(seen, torch.roll(seen, 3, 0))
    assert found["offset"] == 3 and np.isclose(found["distance"], curve.min())
    assert np.isclose(found["confidence"], curve.median() - curve.min())
