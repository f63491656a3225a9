"""Visually driven speech: from a text and a face to a sound.

mel               log-mels, and Griffin and Lim's way back
attention         means that walk along a source
model             two encoders, two attentions, the decoder with its stop token
voice_vector      a speaker as a vector
training          clips as batches, and one system's training
neural_vocoder    a small learned way from log-mels to sound
dubbing           from a clip to a dub to its scores
checkpoint        all networks in one small file
players           what is heard, seen and touched in the page
"""

from .attention import LogisticWalk, walk_reference
from .checkpoint import SHIPPED, load_all, save_all
from .dubbing import (
    ROWS,
    dub,
    fitted,
    paired,
    pitch_learned,
    ranked,
    row_of,
    scores_of,
    shuffled,
    speak,
)
from .mel import griffin_lim, griffin_lim_reference, log_mel, vocode
from .model import SYSTEMS, VisualTTS, loss_of, spell
from .neural_vocoder import NeuralVocoder, train_vocoder
from .players import draw_dubs, longest_pause_ms, pause_slider, player, strip
from .training import batch_of, mel_of, prepare, train
from .voice_vector import VoiceVector, train_voices

__all__ = ["LogisticWalk", "NeuralVocoder", "ROWS", "SHIPPED", "SYSTEMS", "VisualTTS"]
__all__ += ["VoiceVector", "batch_of", "draw_dubs", "dub", "fitted", "griffin_lim"]
__all__ += ["griffin_lim_reference", "load_all", "log_mel", "longest_pause_ms", "loss_of"]
__all__ += ["mel_of", "paired", "pause_slider", "pitch_learned", "player", "prepare"]
__all__ += ["ranked", "row_of", "save_all", "scores_of", "shuffled", "speak", "spell", "strip"]
__all__ += ["train", "train_vocoder", "train_voices", "vocode", "walk_reference"]
