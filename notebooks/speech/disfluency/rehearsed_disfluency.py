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
    """Batches as in ours, and the host reads each loss before the next begins"""
    return _step(sizes, device, 64, read=True)


def _step(sizes, device, rows, read=False):
    """A function that trains on `tests` prefixes of 12 words."""
    torch.manual_seed(0)
    network = pn.PrefixNetwork(VOCABULARY).to(device)
    optimiser = torch.optim.AdamW(network.parameters(), lr=1e-3, capturable=device != "cpu")
    ids = torch.randint(2, VOCABULARY, (max(64, sizes["tests"] // 4), WORDS)).to(device)
    labels = torch.zeros(ids.shape, device=device)
    whole = torch.zeros(len(ids), dtype=torch.bool, device=device)

    def step():
        told = []
        for part in zip(ids.split(rows), labels.split(rows), whole.split(rows), strict=True):
            loss = pt.loss_of(network, part, pt.Recipe())
            loss.backward()
            told.append(float(loss) if read else loss.detach())
        optimiser.step()
        optimiser.zero_grad()
        return told

    return step
