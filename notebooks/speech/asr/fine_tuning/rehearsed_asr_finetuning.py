"""One update of QuartzNet 15x5 as a GPU would run it, the naive way, and a broken one."""

import torch
from quartznet import QuartzNet, log_mel, steps_of

from fine_tuning.novograd import NovoGrad
from fine_tuning.training import ctc_loss

SECONDS, LETTERS, RATE_HZ = 4, 40, 16_000
METRICS = {}  # no claim of the card is about one update


def ours(sizes, device):
    """One update with a batch of four seconds each: features, network, loss, optimiser"""
    step, signal_BN, lengths_B = _ready(sizes["batch"], device)
    return lambda: step(*log_mel(signal_BN, lengths_B))


def naive(sizes, device):
    """The same update, the features of one utterance after the other"""
    step, signal_BN, lengths_B = _ready(sizes["batch"], device)

    def one_by_one():
        pairs = zip(signal_BN.split(1), lengths_B.split(1), strict=True)
        some = [log_mel(*pair) for pair in pairs]
        return step(*(torch.cat(part) for part in zip(*some, strict=True)))

    return one_by_one


def broken(sizes, device):
    """The same update, but each gradient goes to the host and comes back, as it would for an
    average over processes that the host takes"""
    step, signal_BN, lengths_B = _ready(sizes["batch"], device, by_host=True)
    return lambda: step(*log_mel(signal_BN, lengths_B))


def _ready(batch, device, by_host=False):
    """(a function of features and frames that updates a network, signals, their lengths)."""
    model = QuartzNet.build("15x5").to(device).train()
    optimiser = NovoGrad(list(model.parameters()))
    lengths_B = torch.full((batch,), SECONDS * RATE_HZ)  # on the host: no wait
    targets = [[1, 2] * (LETTERS // 2)] * batch

    def update(features_BFT, frames_B):
        optimiser.zero_grad(set_to_none=True)
        loss = ctc_loss(model, features_BFT, frames_B, targets, steps_of(model, lengths_B))
        loss.backward()
        for weight in model.parameters() if by_host else ():
            weight.grad = weight.grad.cpu().to(device)
        optimiser.step()
        return features_BFT, loss.detach()

    return update, torch.zeros(batch, SECONDS * RATE_HZ).to(device), lengths_B
