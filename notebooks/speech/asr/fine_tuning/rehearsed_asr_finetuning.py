"""One update of QuartzNet 15x5 as a GPU would run it, the naive way, and a broken one.

`make predict` counts them without a GPU, at the sizes of each tier.
"""

import torch
from quartznet import QuartzNet, log_mel, steps_of

from fine_tuning.novograd import NovoGrad
from fine_tuning.training import ctc_loss

SECONDS, LETTERS, RATE_HZ = 4, 40, 16_000
METRICS = {}  # no claim of the card is about one update


def ours(sizes, device):
    """One update with a batch of four seconds each: features, network, loss, optimiser"""
    model, optimiser, signal_BN, lengths_B = _ready(sizes["batch"], device)
    return lambda: _update(model, optimiser, lengths_B, *log_mel(signal_BN, lengths_B))


def features(sizes, device):
    """The features alone, of all utterances of the race at once"""
    signal_BN = torch.zeros(sizes["utterances"], SECONDS * RATE_HZ).to(device)
    lengths_B = torch.full((len(signal_BN),), signal_BN.shape[1])
    return lambda: log_mel(signal_BN, lengths_B)


def naive(sizes, device):
    """The same update, the features of one utterance after the other"""
    model, optimiser, signal_BN, lengths_B = _ready(sizes["batch"], device)

    def step():
        some = [
            log_mel(signal_BN[i : i + 1], lengths_B[i : i + 1]) for i in range(len(lengths_B))
        ]
        parts = (torch.cat(part) for part in zip(*some, strict=True))
        return _update(model, optimiser, lengths_B, *parts)

    return step


def broken(sizes, device):
    """The same update, but each gradient goes to the host and comes back, as it would for an
    average over processes that the host takes
    """
    model, optimiser, signal_BN, lengths_B = _ready(sizes["batch"], device)

    def by_host():
        for weight in model.parameters():
            weight.grad = weight.grad.cpu().to(device)

    return lambda: _update(
        model, optimiser, lengths_B, *log_mel(signal_BN, lengths_B), average=by_host
    )


def _ready(batch, device):
    model = QuartzNet.build("15x5").to(device).train()
    signal_BN = torch.zeros(batch, SECONDS * RATE_HZ).to(device)
    lengths_B = torch.full((batch,), SECONDS * RATE_HZ)  # on the host: no wait
    return model, NovoGrad(list(model.parameters())), signal_BN, lengths_B


def _update(model, optimiser, lengths_B, features_BFT, frames_B, average=None):
    """(Features, loss) of an update; `average` is called between gradients and step."""
    optimiser.zero_grad(set_to_none=True)
    targets = [[1, 2] * (LETTERS // 2)] * len(lengths_B)
    loss = ctc_loss(model, features_BFT, frames_B, targets, steps_of(model, lengths_B))
    loss.backward()
    if average:
        average()
    optimiser.step()
    return features_BFT, loss.detach()
