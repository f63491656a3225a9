"""A recogniser for sound that is still coming: windows with context, joined without a seam.

Time is cut into chunks of C frames. The network reads each with L frames before and R frames
behind it, and only the steps of the chunk itself are kept:

    ... |---- left L ----|== chunk C ==|- right R -|        delay = C + R + response

The right context must be spoken before the chunk can be read, so that a person waits for chunk
+ right context + response, of which the article's number is the last term. CTC's collapse goes
on across the join, since the last id is carried along: no letter is doubled or lost. Other than
in the usual buffered decoding, features are computed once and normalised by running moments.

Legend: F mel bands, T frames of 10 ms, S output steps of 20 ms, V letters and blank, N
samples."""

import torch
from ctc import collapse
from quartznet import BLANK, HOP, SAMPLE_RATE_HZ, VOCABULARY

from .features import FeatureStream, RunningNormaliser
from .windows import FRAME_MS, FRAMES_PER_STEP, Event, StreamOptions, Window, as_batch, computed

LONGEST_PUSH_S = 60  # of audio in one call: more is an error, or an attack


class StreamState:
    """One stream: sound in, windows out; the network's answers in, events out.

    >>> stream = StreamState()
    >>> stream.push(torch.zeros(16_000)); window = stream.next_window()
    >>> window.features_FT.shape, window.to_ms, window.heard_ms
    (torch.Size([64, 24]), 60, 240)

    `push` takes float32 samples at 16 kHz, however they are cut. `next_window` gives a Window,
    or None while sound is missing; after `end()` the rest comes with the context there is.
    `accept` takes the network's output (S, V) for the oldest window not yet answered and gives
    Events: one partial, and a final one where an utterance ended. `decoder` makes a search,
    such as `lambda: ctc.PrefixBeam(...)`; None is greedy. Raises ValueError for integers, other
    shapes, more than a minute at once or non-finite samples (the state is then as before), and
    for answers of another size or nobody's."""

    def __init__(self, options=None, prior=None, decoder=None):
        self.options, self.decoder = options or StreamOptions(), decoder
        self.features = FeatureStream()
        self.normaliser = RunningNormaliser(prior, self.options.prior_frames)
        self.ring_FT, self.ring_start = torch.empty(64, 0), 0  # frames kept, first one's number
        self.waiting_N, self.samples, self.taken, self.ended = [], 0, 0, False
        self.next_frame, self.pending = 0, []  # where the next chunk begins; windows out
        self.start_ms, self.silent_ms = 0, 0
        self._fresh()

    def push(self, signal_N):
        """None; keeps the samples until a window needs them."""
        if not isinstance(signal_N, torch.Tensor) or not signal_N.is_floating_point():
            raise ValueError("samples must be a float tensor (N,) in [-1, 1] at 16 kHz")
        if signal_N.ndim != 1 or len(signal_N) > LONGEST_PUSH_S * SAMPLE_RATE_HZ:
            need = f"one axis, at most {LONGEST_PUSH_S} s at once: memory is not one client's"
            raise ValueError(f"samples of shape {tuple(signal_N.shape)}: {need}")
        if not signal_N.sum().isfinite():  # one pass; finite samples cannot overflow
            raise ValueError("samples hold NaN or infinity: one would spoil all later frames")
        if self.ended:
            raise ValueError("samples came after end(): open a new stream for new sound")
        self.waiting_N.append(signal_N)
        self.samples += len(signal_N)

    def end(self):
        """Events; no more sound: the final one, unless windows or answers are still to come."""
        self.ended = True
        return self._endpoint(self.next_frame * FRAME_MS, self.samples // HOP * FRAME_MS)

    @property
    def backlog_ms(self):
        """How much sound has come that no window has taken: what a server must bound."""
        return self.samples * 1000 // SAMPLE_RATE_HZ - self.next_frame * FRAME_MS

    @property
    def finished(self):
        """Whether the stream ended and every window of it was taken and answered."""
        return self.ended and not self.pending and self.next_frame >= self.samples // HOP

    def next_window(self):
        """The next Window, or None."""
        o, total = self.options, self.samples // HOP
        chunk, right = o.chunk_ms // FRAME_MS, o.right_ms and o.right_ms // FRAME_MS
        if self.ended:
            if self.next_frame >= total:
                return None
        elif right is None or total < self.next_frame + chunk + right:
            return None
        begin = self.next_frame
        stop = total if right is None else min(begin + chunk, total)
        end = total if right is None else min(stop + right, total)
        self._read(end)
        left = o.left_ms and o.left_ms // FRAME_MS  # None: all there is
        first = 0 if left is None else max(0, begin - left)
        features_FT = self.ring_FT[:, first - self.ring_start : end - self.ring_start]
        self.next_frame, kept = stop, 0 if left is None else max(0, stop - left)
        window = self._window(features_FT, begin - first, stop - first, stop, end)
        self.ring_FT = self.ring_FT[:, kept - self.ring_start :].clone()
        self.ring_start = kept
        self.pending.append(window)
        return window

    def accept(self, log_probs_SV):
        """Events of the oldest window out, given its log-probabilities (S, V)."""
        if not self.pending:
            raise ValueError("no window of this stream is out: this answer is another stream's")
        window = self.pending[0]
        if log_probs_SV.shape != (need := (window.steps, BLANK + 1)):
            came = f"an answer of shape {tuple(log_probs_SV.shape)} for a window that needs"
            raise ValueError(f"{came} {need}: windows are answered in order")
        self.pending.pop(0)
        kept_SV = log_probs_SV[window.keep_from : window.keep_to]
        return self._decode(kept_SV, window)

    def skip(self):
        """Events; gives the oldest window up as if it were silent: the stream goes on."""
        silence_SV = torch.full((self.pending[0].steps, BLANK + 1), -100.0)
        silence_SV[:, BLANK] = 0.0
        return self.accept(silence_SV)

    def _read(self, end):
        """Turns waiting samples into frames of the ring up to frame `end`, no further: frames
        count in the moments when a window first sees them, however early they came."""
        new = end * HOP - self.taken
        if new > 0:
            first_N, *more = self.waiting_N
            known_N = torch.cat(self.waiting_N) if more else first_N
            self.waiting_N, self.taken = [known_N[new:]], end * HOP
            fresh_FT = self.features.push(known_N[:new])
            self.normaliser.update(fresh_FT)
            self.ring_FT = torch.cat([self.ring_FT, fresh_FT], 1)

    def _window(self, features_FT, keep_from, keep_to, stop, end):
        normaliser = self.normaliser
        if self.options.normalise == "window":
            normaliser = RunningNormaliser()
            normaliser.update(features_FT)
        steps = keep_from // FRAMES_PER_STEP, -(-keep_to // FRAMES_PER_STEP)
        times = stop * FRAME_MS, end * FRAME_MS
        return Window(normaliser.apply(features_FT), *steps, *times)

    def _decode(self, kept_SV, window):
        ids = kept_SV.argmax(1).tolist()
        if self.beam is None:
            fresh = collapse(ids, BLANK, self.last_id)
            self.text += "".join(VOCABULARY[i] for i in fresh)
        else:
            self.beam.advance(kept_SV)
            self.text = self.beam.best()
        self.last_id = ids[-1] if ids else self.last_id
        step_ms = FRAME_MS * FRAMES_PER_STEP
        voiced = [n for n, i in enumerate(ids) if i != BLANK and VOCABULARY[i] != " "]
        quiet = len(ids) - 1 - voiced[-1] if voiced else len(ids) + self.silent_ms // step_ms
        self.silent_ms = quiet * step_ms
        times = window.to_ms, window.heard_ms
        return [Event("partial", self.text, self.start_ms, *times), *self._endpoint(*times)]

    def _endpoint(self, to_ms, heard_ms):
        """The final Event where the utterance ended, and the state made fresh for the next."""
        o, spoken = self.options, bool(self.text.strip())
        silent = o.endpoint_ms is not None and self.silent_ms >= o.endpoint_ms
        long = to_ms - self.start_ms >= o.longest_ms and self.last_id in (None, BLANK)
        if not spoken or not (self.finished or silent or long):
            return []
        if self.beam is not None:
            self.text = self.beam.finish()[0][0]
        event = Event("final", self.text, self.start_ms, to_ms, heard_ms)
        self._fresh()
        self.start_ms = to_ms
        return [event]

    def _fresh(self):
        self.text, self.last_id = "", None  # cuts fall on blanks: no letter goes on
        self.beam = self.decoder() if self.decoder else None


def run_windows(model, windows):
    """The log-probabilities (S, V) of each Window, computed as one batch, in which windows of
    unlike length are padded and masked, so that company changes nothing."""
    found_BSV = computed(model, *as_batch([window.features_FT.numpy() for window in windows]))
    rows = zip(found_BSV, windows, strict=True)
    return [torch.from_numpy(row_SV[: window.steps]) for row_SV, window in rows]


def events_of(model, signals, options=None, prior=None, decoder=None):
    """The Events of each signal (N,), all of them streamed side by side: a list of lists. The
    windows of one round form one batch, as in the server."""
    streams = [StreamState(options, prior, decoder) for _ in signals]
    found = [[] for _ in signals]
    for stream, signal_N in zip(streams, signals, strict=True):
        for part_N in signal_N.split(LONGEST_PUSH_S * SAMPLE_RATE_HZ):
            stream.push(part_N)
        stream.end()
    while due := [(n, w) for n, s in enumerate(streams) if (w := s.next_window())]:
        answers = run_windows(model, [window for _, window in due])
        for (n, _), log_probs_SV in zip(due, answers, strict=True):
            found[n] += streams[n].accept(log_probs_SV)
    return found


def transcribe(model, signals, options=None, prior=None, decoder=None):
    """The text of each signal (N,), streamed: a list of strings, finals joined by a space."""
    found = events_of(model, signals, options, prior, decoder)
    finals = ([one.text for one in events if one.kind == "final"] for events in found)
    return [" ".join(" ".join(texts).split()) for texts in finals]
