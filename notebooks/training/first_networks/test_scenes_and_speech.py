"""Scenes have the labels that were drawn; a speaker who is left out was not heard."""

import grass_scenes as gs
import numpy as np
import pytest
import spoken_digits as sd
from helpers import data


def test_a_scene_is_that_of_its_seed():
    one, again, other = gs.scene(3), gs.scene(3), gs.scene(4)
    assert (one[0] == again[0]).all() and not np.array_equal(one[1], other[1])
    assert 0 < one[1].mean() < 1 and one[0].min() >= 0 and one[0].max() <= 1


@pytest.mark.parametrize("seed", [3, 100, 111])
def test_grass_is_the_green_and_larger_part_of_a_scene(seed):
    picture, labels = gs.scene(seed)
    green = gs.greenness(picture)
    assert green[labels == 0].mean() > 0.5 > 0.2 > green[labels == 1].mean()
    assert labels.mean() < 0.5


def test_reds_on_both_ends_of_the_hue_are_neighbours():
    first, second = gs.features(np.array([[[1, 0.02, 0.0], [1, 0.0, 0.02]]]))
    assert abs(first - second).max() < 0.05


def test_a_grey_pixel_has_no_hue():
    np.testing.assert_allclose(gs.features(np.full((1, 1, 3), 0.4)), [[0, 0, 0.4]])


def test_greenness_is_a_share_of_the_light():
    bright = np.array([[0.2, 0.6, 0.2], [0.4, 0.4, 0.4], [0, 0, 0], [0, 1, 0], [0.5, 0, 0.5]])
    assert gs.greenness(bright) == pytest.approx([0.8, 0, 0, 2, -1])
    assert gs.greenness(bright / 3) == pytest.approx(gs.greenness(bright))


def test_the_best_cut_parts_grass_from_obstacles():
    picture = np.array([[[0.2, 0.6, 0.2], [0.5, 0.3, 0.2]]])  # greenness 0.8 and −0.1
    cuts = [-0.5, 0.0, 0.5, 1.5]
    assert gs.best_cut([(picture, np.array([[0, 1]]))], cuts) == 0.0
    assert gs.best_cut([(picture, np.array([[1, 1]]))], cuts) == 1.5


def test_the_rival_knows_no_light_and_is_a_strong_one():
    known, unseen = ([gs.scene(seed) for seed in seeds] for seeds in (range(6), range(50, 56)))
    cut = gs.best_cut(known, np.linspace(-0.5, 1.5, 201))
    assert np.median([gs.overlap(gs.greenness(p) < cut, own) for p, own in unseen]) > 0.9


def test_overlap_of_halves_is_a_third():
    assert gs.overlap([1, 1, 0, 0], [0, 1, 1, 0]) == pytest.approx(1 / 3)
    assert gs.overlap([0, 0], [0, 0]) == 1 and gs.overlap([1, 0], [0, 1]) == 0


@pytest.mark.parametrize(
    "picture", [np.ones((4, 4)), np.full((2, 2, 3), 1.5), np.full((2, 2, 3), np.nan)]
)
def test_what_is_no_picture_is_refused(picture):
    with pytest.raises(ValueError, match="is needed"):
        gs.features(picture)


def test_a_scene_that_is_too_small_is_refused():
    with pytest.raises(ValueError, match="16 or more"):
        gs.scene(0, side=8)


def test_the_speaker_who_is_left_out_was_not_heard():
    speakers, heard = np.repeat(["a", "b", "c"], 4), []

    def learn(x, y):
        heard.append(set(x[:, 0].astype(int)))
        return lambda rows: np.zeros(len(rows))

    x = np.repeat(np.arange(3), 4)[:, None].astype(float)
    found = sd.leave_one_out(learn, x, np.tile([0, 1], 6), speakers)
    assert heard == [{1, 2}, {0, 2}, {0, 1}] and found == {"a": 0.5, "b": 0.5, "c": 0.5}


def test_one_speaker_is_refused():
    with pytest.raises(ValueError, match="two are needed"):
        sd.leave_one_out(None, np.ones((2, 1)), np.ones(2), np.array(["a", "a"]))


def test_loudness_does_not_matter():
    sound = np.random.default_rng(0).normal(size=4000)
    np.testing.assert_allclose(
        sd.summary(sound), sd.summary(sound * 0.01), rtol=1e-3, atol=1e-2
    )


def test_a_tone_is_loudest_in_the_band_that_holds_it():
    power = abs(np.fft.rfft(np.sin(2 * np.pi * 1000 * np.arange(256) / 8000))) ** 2
    filters = sd.mel_filters()
    assert filters.shape == (26, 129) and filters.min() == 0 and filters.max() <= 1
    # 1000 Hz is 1000 mel; bands lie 2146 / 27 mel apart, the first at one step
    assert (filters @ power).argmax() == round(1000 / (2146 / 27)) - 1


def test_what_comes_first_is_told():
    low, high = (np.sin(2 * np.pi * hz * np.arange(4000) / 8000) for hz in (300, 2500))
    one, other = (sd.summary(np.r_[pair]) for pair in ((low, high), (high, low)))
    assert abs(one[:13] - other[:13]).max() > 1


def test_twice_the_sound_is_four_times_the_energy_in_all_bands():
    sound = np.random.default_rng(0).normal(size=2000)
    moved = sd.coefficients(2 * sound) - sd.coefficients(sound)
    # a constant log 4 in 26 bands has one cosine coefficient: √26 · log 4
    np.testing.assert_allclose(moved[:, 0], np.sqrt(26) * np.log(4), rtol=1e-4)
    assert abs(moved[:, 1:]).max() < 1e-3


def test_each_row_is_the_recording_that_its_labels_name(tmp_path):
    soundfile = pytest.importorskip("soundfile")
    rng, sounds = np.random.default_rng(0), {}
    for name in sd.SPEAKERS:
        for digit in range(10):
            sounds[digit, name] = rng.uniform(-0.9, 0.9, 900)
            soundfile.write(tmp_path / f"{digit}_{name}_4.wav", sounds[digit, name], 8000)
    rows = sd.table(tmp_path, takes=[4])
    for row, digit, name in zip(*rows, strict=True):
        np.testing.assert_allclose(row, sd.summary(sounds[digit, name]), atol=0.05)  # 16 bits


def test_a_click_is_answered():
    assert sd.summary([0.0, 1.0, 0.0]).shape == (78,)


@pytest.mark.parametrize(
    ("sound", "rate"),
    [
        ([], 8000),
        (np.zeros(99), 8000),
        (np.ones((9, 2)), 8000),
        ([0, 1], 16000),
        ([0, np.nan], 8000),
    ],
)
def test_what_is_no_recording_is_refused(sound, rate):
    with pytest.raises(ValueError, match="is needed"):
        sd.summary(sound, rate)


def test_six_speakers_say_ten_digits():
    try:
        folder = data.fetch("fsdd")
    except data.DataError as error:
        pytest.skip(f"the data set cannot be had: {error}")
    x, digits, speakers = sd.table(folder, takes=range(1))
    assert x.shape == (60, 78) and np.bincount(digits).tolist() == [6] * 10
    assert np.unique(speakers).tolist() == list(sd.SPEAKERS)
