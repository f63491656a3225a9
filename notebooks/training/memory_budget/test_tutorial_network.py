from itertools import pairwise

import numpy as np
import pytest
import torch
from leak_clinic import private_growth
from tutorial_network import batch_of, classifier, mapped, write_photos

COUNT = 900  # so many that a batch of 30 and the heap's own pages are little beside them


@pytest.fixture(scope="module")
def photos(tmp_path_factory):
    path = tmp_path_factory.mktemp("photos") / "photos.npy"
    write_photos(path, COUNT, 64)
    return path


def test_a_batch_is_the_files_bytes_over_255(photos):
    batch = batch_of(mapped(photos), [7, 3])
    assert batch.shape == (2, 3, 64, 64) and batch.dtype == torch.float32
    assert batch[0, 2, 5, 9].item() == pytest.approx(mapped(photos)[7, 5, 9, 2] / 255)


def test_a_mapped_file_costs_a_batch_and_a_read_one_all(photos):
    def batches():
        for at in range(0, COUNT, 30):
            last = mapped(photos)[at : at + 30].astype(np.float32)
        return last

    whole = COUNT * 64 * 64 * 3 * 4
    assert private_growth(lambda: mapped(photos).astype(np.float32)) > 0.9 * whole
    assert private_growth(batches) < 0.3 * whole


def test_group_norm_has_eight_groups_after_each_convolution():
    layers = list(classifier(norm="group"))
    found = [b.num_groups for a, b in pairwise(layers) if isinstance(a, torch.nn.Conv2d)]
    assert found == [8, 8, 8]


@pytest.mark.parametrize(
    ("options", "message"),
    [({"norm": "layer"}, "allowed are none"), ({"side": 7}, "8 or more")],
)
def test_what_cannot_be_built_is_refused(options, message):
    with pytest.raises(ValueError, match=message):
        classifier(**options)
