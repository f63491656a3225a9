"""What is wrong with a dub: scores from their definitions, each with a plain reference.

cepstral   mel-cepstral distortion, in step and after warping
pitch      a tracker, and the errors of pitch and voicing
sync       a scorer of synchrony, its distance and confidence; where both are silent
words      which words are understood, by the nearest template and by a recogniser
"""

from .cepstral import (
    cepstra,
    mel_cepstral_distortion,
    mel_cepstral_distortion_reference,
    warped_distances,
    warping_path,
)
from .pitch import (
    f0_errors_reference,
    f0_frame_error,
    f0_track,
    gross_pitch_error,
    normalised_f0,
    voicing_error,
)
from .sync import (
    SyncScorer,
    offset_distances,
    offset_distances_reference,
    silence_overlap,
    sync_scores,
    train_scorer,
)
from .words import recogniser, share_understood, word_spans, words_heard

__all__ = ["SyncScorer", "cepstra", "f0_errors_reference", "f0_frame_error", "f0_track"]
__all__ += ["gross_pitch_error", "mel_cepstral_distortion", "mel_cepstral_distortion_reference"]
__all__ += ["normalised_f0", "offset_distances", "offset_distances_reference", "recogniser"]
__all__ += ["share_understood", "silence_overlap", "sync_scores", "train_scorer"]
__all__ += ["voicing_error", "warped_distances", "warping_path", "word_spans", "words_heard"]
