"""Sounds through the network: a padded batch in, the log-probabilities of each out. Legend: B
batch, N samples, S output steps, V letters and blank."""

import contextlib

import torch

from .features import HOP, log_mel, sent


@torch.inference_mode()
def recognise(model, signals, batch=32):
    """Log-probabilities (S, V) of each signal, on the CPU in the order given. Signals of like
    length share a batch; lengths and masks keep them apart. The model is used in eval mode and
    left in the mode it came in."""
    device, training = next(model.parameters()).device, model.training
    order = sorted(range(len(signals)), key=lambda row: len(signals[row]))
    made, steps = [], []
    model.eval()
    try:
        for rows in (order[i : i + batch] for i in range(0, len(order), batch)):
            signal_BN, lengths_B = pad([signals[row] for row in rows], device)
            features = log_mel(signal_BN, lengths_B)  # float32, so outside of autocast
            with mixed_precision(device):
                log_probs_BSV, _ = model(*features)
            some = steps_of(model, lengths_B).tolist()
            made += [probs_SV[:n] for probs_SV, n in zip(log_probs_BSV, some, strict=True)]
            steps += some
    finally:
        model.train(training)
    # one copy for all: read batch by batch, the GPU would stand still between two of them
    back = torch.cat(made).cpu().split(steps) if made else []
    found = dict(zip(order, back, strict=True))
    return [found[row] for row in range(len(signals))]


def pad(signals, device="cpu"):
    """Signals (N,) as one batch (B, N) with zeros behind, and lengths (B,), on the host."""
    lengths_B = torch.tensor([len(signal) for signal in signals])
    return sent(torch.nn.utils.rnn.pad_sequence(signals, batch_first=True), device), lengths_B


def steps_of(model, lengths_B):
    """Output steps (B,) of signals of these lengths, without asking the device."""
    return (lengths_B // HOP + model.frames_per_step - 1) // model.frames_per_step


def mixed_precision(device):
    """A context in which a GPU with bfloat16 units convolves in bfloat16; else none."""
    if torch.device(device).type == "cuda" and torch.cuda.get_device_capability(device)[0] >= 8:
        return torch.autocast("cuda", dtype=torch.bfloat16)
    return contextlib.nullcontext()
