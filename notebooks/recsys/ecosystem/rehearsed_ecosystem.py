"""Steps of the ecosystem as a GPU would run them, world by world, and with a host that reads;
`make predict` counts them without a GPU, at the sizes of each tier.
"""

import torch
from array_backends import TorchBackend
from ecosystem_world import draw_providers, ecosystem_story, provider_aware

METRICS = {}  # the race's ratio is one of two ways here, and no part is a measure of it
STEPS = 3


def ours(sizes, device):
    """Three steps of all worlds in a batch; nothing comes back to the host"""
    advance, start = _begun(sizes, sizes["worlds"], device)

    def call():
        values = start
        for _ in range(STEPS):
            values = advance(values)
        return values["metrics.utility"]

    return call


def naive(sizes, device):
    """The same worlds one after another"""
    pairs = [_begun(sizes, 1, device) for _ in range(sizes["worlds"])]

    def call():
        found = []
        for advance, values in pairs:
            for _ in range(STEPS):
                values = advance(values)
            found.append(values["metrics.utility"])
        return torch.cat(found)

    return call


def broken(sizes, device):
    """The batch, but each step's values go to the host and back, as for a policy in NumPy"""
    advance, start = _begun(sizes, sizes["worlds"], device)

    def call():
        values = start
        for _ in range(STEPS):
            there = {name: value.cpu() for name, value in advance(values).items()}
            values = {name: value.to(device) for name, value in there.items()}
        return values["metrics.utility"]

    return call


def _begun(sizes, worlds, device):
    """(a function from one step's values to the next ones', the first step's values)."""
    policy, backend = provider_aware(1.2), TorchBackend(0, device)
    story = ecosystem_story(policy, draw_providers(worlds, 0), sizes["users"])
    return lambda values: story.advance(values, backend), story.advance({}, backend)
