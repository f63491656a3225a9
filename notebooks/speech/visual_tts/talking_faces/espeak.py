"""Words spoken by eSpeak NG, with the time of each phoneme; eSpeak is a C library, called by
ctypes.

The library and its voices come with the package `espeakng-loader`, so nothing has to be
installed beside pip. eSpeak NG is under the GPL, version 3 or later (the wheel's metadata names
no licence): it is called when the code runs, and nothing of it is in this repository.

eSpeak keeps state that its interface cannot reset, and draws breath without a seed: the same
call gives nearly, not exactly, the same sound, by a few ms. `say` keeps what it has heard, so
one process hears one thing.

A voice is a base ("en-us") and a variant ("m3", "f2": other formants), a pitch and a rate.
"""

import ctypes
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import espeakng_loader
import numpy as np

__all__ = ["RATE_HZ", "Voice", "say"]

RATE_HZ = 22_050  # what eSpeak's formant synthesiser makes
SYNCHRONOUS, PHONEMES_IN_IPA, STAY = 2, 0x0003, 0x8000
RATE, PITCH, RANGE = 1, 3, 4
UTF8, LAST, PHONEME = 1, 0, 7


@dataclass(frozen=True)
class Voice:
    """A variant of eSpeak's, with a pitch of 0 to 99 and a range of pitch of 0 to 99, both
    without unit.
    """

    variant: str
    pitch: int = 50
    range: int = 10


class _Event(ctypes.Structure):
    _fields_ = (
        *(("type", ctypes.c_int), ("unique_identifier", ctypes.c_uint)),
        *((name, ctypes.c_int) for name in ("text_position", "length", "at_ms", "sample")),
        *(("user_data", ctypes.c_void_p), ("name", ctypes.c_char * 8)),
    )


_TOLD = (ctypes.POINTER(ctypes.c_short), ctypes.c_int, ctypes.POINTER(_Event))
_Heard = ctypes.CFUNCTYPE(ctypes.c_int, *_TOLD)


@lru_cache(maxsize=1)
def _library():
    """The library, started once a process, and the lists that its callback fills."""
    library = ctypes.CDLL(espeakng_loader.get_library_path())
    data = str(espeakng_loader.get_data_path()).encode()
    library.espeak_Initialize.argtypes = [ctypes.c_int] * 2 + [ctypes.c_char_p, ctypes.c_int]
    rate = library.espeak_Initialize(SYNCHRONOUS, 0, data, PHONEMES_IN_IPA | STAY)
    if rate != RATE_HZ:
        raise RuntimeError(
            f"eSpeak NG answered {rate} where {RATE_HZ} Hz is its rate: its voices are missing"
        )
    pieces, phonemes = [], []

    @_Heard
    def heard(wave, samples, events):
        if wave and samples > 0:
            pieces.append(np.ctypeslib.as_array(wave, (samples,)).copy())
        at = 0
        while events[at].type != LAST:
            if events[at].type == PHONEME:
                ipa = events[at].name.decode("utf-8", "ignore")
                phonemes.append((events[at].at_ms / 1000, ipa))
            at += 1
        return 0

    library.espeak_SetSynthCallback(heard)
    return library, pieces, phonemes, heard


@lru_cache(maxsize=20_000)
def say(text, voice, rate=150):
    """(sound, phonemes): float32 of shape (N,) at 22,050 Hz between -1 and 1, and a tuple of
    (start in s, IPA).

    >>> sound, phonemes = say("two", Voice("m3"))
    >>> [ipa for _, ipa in phonemes if ipa]
    ['t', 'ˈuː']

    `rate` is in words a minute, 80 to 450 are allowed. The last phoneme, "", marks the end.
    Raises ValueError for an empty text, for one with a NUL or over 1,000 letters, for a rate
    outside, and for a variant that eSpeak does not have.
    """
    if not text.strip() or "\0" in text or len(text) > 1000:
        raise ValueError(
            f"a text of {len(text)} letters, {text[:20]!r}: 1 to 1,000 without NUL are allowed"
        )
    if not 80 <= rate <= 450:
        raise ValueError(
            f"a rate of {rate} words a minute: 80 to 450 are allowed, eSpeak's own range"
        )
    known = Path(espeakng_loader.get_data_path()) / "voices" / "!v"
    if voice.variant not in {file.name for file in known.iterdir()}:
        raise ValueError(
            f"no variant {voice.variant!r}: eSpeak NG has m1 to m8, f1 to f5 and named ones"
        )
    library, pieces, phonemes, _ = _library()
    library.espeak_SetVoiceByName(f"en-us+{voice.variant}".encode())
    for which, value in ((RATE, rate), (PITCH, voice.pitch), (RANGE, voice.range)):
        library.espeak_SetParameter(which, int(value), 0)
    pieces.clear(), phonemes.clear()
    told = text.encode()
    failed = library.espeak_Synth(told, len(told) + 1, 0, 1, 0, UTF8, None, None)
    library.espeak_Synchronize()
    if failed or not pieces:
        raise RuntimeError(f"eSpeak NG said nothing for {text!r} (its status is {failed})")
    sound = np.concatenate(pieces).astype(np.float32) / 32768
    sound.setflags(write=False)
    return sound, tuple(phonemes)
