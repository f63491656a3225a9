"""Training steps on prefixes as a GPU would do them, the naive way, and a broken one.

`make predict` counts them without a GPU, at the sizes of each tier.
"""

import prefix_network as pn
import prefix_training as pt
import torch

WORDS, VOCABULARY = 12, 1402


def ours(sizes, device):
    """One step on all prefixes of one length at once, the loss that works"""
    return _step(sizes, device, 64)


def naive(sizes, device):
    """The same prefixes one at a time, one step at the end"""
    return _step(sizes, device, 1)


def broken(sizes, device):
    """Batches as in ours, but their words go up one prefix at a time"""
    return _step(sizes, device, 64, sends=True)


def _step(sizes, device, rows, sends=False):
    """A function that takes one step on prefixes of 12 words and gives their mean loss."""
    torch.manual_seed(0)
    network = pn.PrefixNetwork(VOCABULARY).to(device)
    on_card = torch.device(device).type != "cpu"
    optimiser = torch.optim.AdamW(network.parameters(), lr=1e-3, capturable=on_card)
    ids = torch.randint(2, VOCABULARY, (max(64, sizes["tests"] // 4), WORDS)).to(device)
    labels = torch.zeros(ids.shape, device=device)
    whole = torch.zeros(len(ids), dtype=torch.bool, device=device)
    there = ids.cpu()

    def step():
        here, told = ids, []
        if sends:
            here = torch.stack([prefix.to(device) for prefix in there])
        for part in zip(here.split(rows), labels.split(rows), whole.split(rows), strict=True):
            loss = pt.loss_of(network, part, pt.Recipe()) * (len(part[0]) / len(ids))
            loss.backward()
            told.append(loss.detach())
        optimiser.step()
        optimiser.zero_grad()
        return torch.stack(told).sum()

    return step
