"""Distance to a window's face, and what is counted there."""

import numpy as np
import sliding_windows as sw
import torch
import window_errors as we


def test_a_face_where_the_volume_ends_is_no_face():
    alone = we.distances((0, 0, 0), (8, 8, 8), 8)
    assert (alone == 8).all(), "nothing is beyond"
    first = we.distances((0, 0, 0), (8, 8, 16), 8)
    assert first[3, 3].tolist() == [7, 6, 5, 4, 3, 2, 1, 0]
    middle = we.distances((4, 4, 4), (16, 16, 16), 8)
    assert middle.max() == 3 and (middle == 0).sum() == 8**3 - 6**3


def test_a_network_that_errs_at_faces_is_found_out():
    labels = torch.ones(16, 16, 16, dtype=torch.uint8)

    def network(x):
        scores = torch.zeros(len(x), 3, 8, 8, 8)
        scores[:, 1] = 1
        scores[..., 0, 0], scores[..., 0, :, 0] = 2, 2  # whatever: the low faces are background
        scores[:, 0, 0] = 3
        return scores

    wrong, counted = we.by_distance(torch.zeros(16, 16, 16), labels, network, 8)
    assert wrong[0] > 0 and wrong[1:].sum() < wrong.sum()
    assert counted.sum() > 0 and (wrong <= counted).all()


def test_a_right_network_errs_nowhere_and_air_is_not_counted():
    scan = torch.zeros(16, 16, 16)
    scan[5:9, 5:9, 5:9] = 1

    def network(x):
        return torch.cat([0.5 - x, x - 0.5, 0 * x - 9], 1)

    wrong, counted = we.by_distance(scan, scan.byte(), network, 8)
    assert wrong.sum() == 0
    inside = sum(
        int((scan[z : z + 8, y : y + 8, x : x + 8] > 0).sum())
        for z, y, x in sw.starts_of(scan.shape, 8, 4)
    )
    assert 0 < counted.sum() <= inside


def test_ways_say_dice_and_windows():
    scan = (torch.rand(16, 16, 32, generator=torch.Generator().manual_seed(0)) > 0.5).float()
    found = we.ways(
        scan, scan.byte(), lambda x: torch.cat([0.5 - x, x - 0.5, x * 0 - 9], 1), 16
    )
    assert set(found) == set(we.WAYS)
    assert all(one.dice.kidney == 1.0 and one.seconds > 0 for one in found.values())
    assert [found[name].windows for name in we.WAYS] == [2, 3, 3, 3, 5]
    assert np.isclose(found["side by side"].dice.mean, 1)
