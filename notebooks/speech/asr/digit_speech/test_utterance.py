"""Composed utterances, on recordings made here: tones for digits, of known length and level."""

import numpy as np
import pytest
import soundfile
import torch

from . import utterance
from .utterance import ACCENTS, SPLITS, WORDS, Style, save, utterances

DRY = Style(t60_s=None, snr_db=None)


@pytest.fixture(scope="module")
def recordings(tmp_path_factory):
    """For each speaker and digit a tone of 0.3 s, its level by speaker and index."""
    folder = tmp_path_factory.mktemp("fsdd")
    t_N = np.arange(2400) / 8000
    tones = [np.sin(2 * np.pi * (200 + 100 * digit) * t_N) for digit in range(10)]
    for number, speaker in enumerate(ACCENTS):
        for digit in range(10):
            for index in range(25):
                level = 0.02 + 0.1 * number + 0.005 * index
                tone = level * tones[digit] + 0.01 * number
                soundfile.write(folder / f"{digit}_{speaker}_{index}.wav", tone, 8000)
    return folder


def pieces(one):
    """The samples of each word of an utterance."""
    spans = [(round(w.start_s * 16000), round(w.end_s * 16000)) for w in one.words]
    return [one.signal[start:end] for start, end in spans]


def pitch_hz(sound):
    sound = sound.numpy() * np.hanning(len(sound))
    return np.abs(np.fft.rfft(sound, 160_000)).argmax() / 10


def test_an_utterance_has_its_signal_its_words_and_its_speaker(recordings):
    for one in utterances(recordings, "train", "george", 20):
        assert one.signal.dtype == torch.float32 and one.signal.ndim == 1
        assert one.signal.abs().max() <= 1 and one.duration_s == len(one.signal) / 16_000
        assert one.text == " ".join(word.text for word in one.words)
        assert 3 <= len(one.words) <= 8 and set(one.text.split()) <= set(WORDS)
        assert (one.speaker, one.accent, one.split) == ("george", "GRC", "train")


def test_a_word_lies_where_its_times_say(recordings):
    one = utterances(recordings, "train", "theo", 1, style=DRY)[0]
    silent = torch.ones(len(one.signal), dtype=bool)
    for word, sound in zip(one.words, pieces(one), strict=True):
        assert abs(pitch_hz(sound) - (200 + 100 * WORDS.index(word.text))) < 5
        silent[round(word.start_s * 16000) : round(word.end_s * 16000)] = False
    assert silent.any() and one.signal[silent].abs().max() == 0


def test_the_same_seed_gives_the_same_sound_and_another_seed_another(recordings):
    first, again = (utterances(recordings, "test", "lucas", 3, seed=5) for _ in range(2))
    assert all(torch.equal(a.signal, b.signal) for a, b in zip(first, again, strict=True))
    assert first[0].text != utterances(recordings, "test", "lucas", 1, seed=6)[0].text


def test_an_utterance_does_not_depend_on_what_else_is_asked_for(recordings):
    alone = utterances(recordings, "test", "theo", 2, style=DRY)
    among = [
        u for u in utterances(recordings, "test", count=3, style=DRY) if u.speaker == "theo"
    ]
    assert [u.name for u in alone] == [u.name for u in among][:2]
    assert torch.equal(alone[1].signal, among[1].signal)


def test_speakers_and_splits_do_not_say_the_same(recordings):
    said = [
        tuple(u.text for u in utterances(recordings, split, speaker, 5, style=DRY))
        for split in SPLITS
        for speaker in ACCENTS
    ]
    assert len(set(said)) == len(said)


def test_no_recording_is_in_both_splits(recordings):
    used = {
        split: {
            word.recording
            for u in utterances(recordings, split, count=12, style=DRY)
            for word in u.words
        }
        for split in SPLITS
    }
    index = {split: {int(n[:-4].split("_")[2]) for n in names} for split, names in used.items()}
    assert index == {"test": set(range(5)), "train": set(range(5, 25))}


def test_pauses_inside_a_group_are_brief_and_between_groups_medium(recordings):
    style = Style(group=(3, 3), digits=(7, 7), t60_s=None, snr_db=None)
    for one in utterances(recordings, "train", "theo", 20, style=style):
        gaps = [b.start_s - a.end_s for a, b in zip(one.words, one.words[1:], strict=False)]
        assert [gap >= 0.2 - 1e-9 for gap in gaps] == [False, False, True, False, False, True]
        assert min(gaps) >= 0.02 - 1e-4 and max(gaps) <= 1 + 1e-4


def test_pauses_have_their_median_and_spread():
    style = Style(group=(99, 99), brief_s=(0.08, 1.6, 0.0, 9.0))
    logs = np.log(utterance._pauses(90, np.random.default_rng(0), style))
    for seed in range(1, 60):
        logs = np.append(
            logs, np.log(utterance._pauses(90, np.random.default_rng(seed), style))
        )
    # 5,340 draws: the mean of the logs is known to 0.47 / 73 = 0.0064, four times that is asked
    assert abs(logs.mean() - np.log(0.08)) < 0.026 and abs(logs.std() - np.log(1.6)) < 0.02


def test_words_have_the_level_that_was_asked_for(recordings):
    style = Style(level_db=(-26, -26), word_db=(0, 0), t60_s=None, snr_db=None)
    for speaker in ("jackson", "george"):  # whose recordings differ by 20 dB
        for sound in pieces(utterances(recordings, "train", speaker, 1, style=style)[0]):
            assert abs(10 * torch.log10(sound.square().mean()) + 26) < 0.1  # fades


def test_noise_has_the_stated_ratio_to_the_words(recordings):
    style = Style(t60_s=None, snr_db=(20, 20))
    noisy = utterances(recordings, "train", "nicolas", 1, style=style)[0]
    dry = utterances(recordings, "train", "nicolas", 1, style=DRY)[0]
    words = torch.cat(pieces(dry)).square().mean()
    noise = (noisy.signal - dry.signal).square().mean()  # the draws before it are the same
    assert abs(10 * torch.log10(words / noise) - 20) < 0.01


def test_a_loud_utterance_is_scaled_and_not_clipped(recordings):
    loud = utterances(recordings, "train", "theo", 1, style=Style(level_db=(10, 10)))[0]
    assert abs(loud.signal.abs().max() - 0.99) < 1e-6
    assert (loud.signal.abs() > 0.98).sum() < 10


def test_a_recording_loses_its_silence_its_offset_and_its_level(tmp_path):
    tone = np.sin(2 * np.pi * 500 * np.arange(2400) / 8000)
    hushed = 0.3 * np.concatenate([np.zeros(4000), tone, np.zeros(8000)]) + 0.1
    soundfile.write(tmp_path / "1_theo_0.wav", hushed, 8000)
    sound = utterance.read_digit(tmp_path / "1_theo_0.wav")
    assert abs(len(sound) / 16_000 - (0.3 + 2 * 0.05)) < 0.02  # 50 ms stay on each side
    assert abs(sound.mean()) < 0.01 and np.isclose(np.mean(sound**2), 1)


@pytest.mark.parametrize(
    ("sound", "rate"),
    [
        (np.zeros(800), 8000),
        (np.zeros(0), 8000),
        (np.eye(800, 2), 8000),
        (np.arange(9) / 9, 16000),
    ],
)
def test_refuses_recordings_of_another_kind(tmp_path, sound, rate):
    soundfile.write(tmp_path / "1_theo_0.wav", sound, rate)
    with pytest.raises(ValueError, match="8000 Hz, mono"):
        utterance.read_digit(tmp_path / "1_theo_0.wav")


def test_saved_sounds_are_those_composed(recordings, tmp_path):
    spoken = utterances(recordings, "test", "theo", 2)
    for one, entry in zip(spoken, save(spoken, tmp_path / "new"), strict=True):
        sound, rate = soundfile.read(entry["audio_filepath"], dtype="float32")
        assert rate == 16_000 and np.abs(sound - one.signal.numpy()).max() <= 1 / 32768
        assert entry["text"] == one.text and entry["duration"] == len(sound) / rate


def test_refuses_splits_and_speakers_that_do_not_exist(recordings):
    with pytest.raises(ValueError, match="'valid'.*'test', 'train'"):
        utterances(recordings, "valid")
    with pytest.raises(ValueError, match="'anna'"):
        utterances(recordings, "test", ["theo", "anna"])


def test_a_missing_recording_is_named(tmp_path):
    with pytest.raises(FileNotFoundError, match="_theo_"):
        utterances(tmp_path, "test", "theo", 1)


@pytest.mark.parametrize(
    "wrong",
    [
        {"digits": (0, 3)},
        {"digits": (5, 3)},
        {"group": (0, 0)},
        {"t60_s": (0.0, 0.5)},
        {"snr_db": (30, 10)},
        {"brief_s": (0.08, 1.6, 0.2, 1.0)},  # would be drawn for ever
        {"medium_s": (0.4, 1.0, 0.2, 1.0)},
        {"brief_s": (0.08, 1.6, 0.08, 0.08)},
    ],
)
def test_refuses_a_style_that_cannot_be_drawn(wrong):
    with pytest.raises(ValueError, match=f"Style.{next(iter(wrong))}="):
        Style(**wrong)


def test_accents_are_those_of_the_data_set():
    assert {speaker for speaker, accent in ACCENTS.items() if accent == "USA"} == {
        "jackson",
        "theo",
    }
    assert ACCENTS["lucas"] == ACCENTS["yweweler"] == "DEU"
    assert (ACCENTS["nicolas"], ACCENTS["george"]) == ("BEL", "GRC")
