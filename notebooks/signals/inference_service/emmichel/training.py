"""How the network learns, and how `small_network.safetensors` was made: 8 filters and pooled
squares, trained on simulated events.

    python -m emmichel.training    # from the slice's folder; minutes; writes the file

After larrecodnn's script: 0.1 · cross-entropy of track, shower, none plus 1.0 · squared error
of the Michel output. Adam in place of the published SGD, since it sees thousands of patches and
not millions; which patches are kept depends on their kind, in shares of our own. Training and
test are apart by event, since neighbours overlap: seed 1 teaches, seed 2 says how good it is,
pages and the study draw others.
"""

import json
from collections import namedtuple
from pathlib import Path

import numpy as np
import torch
from lartpc import EM, MICHEL, TRACK, Detector, draw_primaries, simulate
from reconstruction import hit_truth, kinds_of, prepare, quality
from safetensors import safe_open
from safetensors.torch import save_file
from torch.nn import functional as nn_f

from .network import EmMichelTrack, full_size, infer

KEPT = {TRACK: 0.3, EM: 0.5, MICHEL: 1.0}  # the share of hits of each kind to learn from
NONE, EMPTY = 3, 0.05  # hits of noise, and as many patches where nothing is, for each hit
FILE = Path(__file__).with_name("small_network.safetensors")
FILTERS, POOL, EVENTS, EPOCHS = 8, 2, 24, 14
MIX = {"muons": 3, "stopping": 12, "protons": 2, "showers": 2}  # rich in what is rare


# patches (N, 48, 48) float32, kinds (N,) of TRACK, EM, MICHEL or NONE
Examples = namedtuple("Examples", "patches kinds")


def load_network(large=True, device="cpu"):
    """The trained network in eval mode, of the published size unless `large` is false; its
    `notes` say how it was made."""
    small = EmMichelTrack(FILTERS, pool=POOL)
    with safe_open(FILE, framework="pt") as file:
        small.load_state_dict({name: file.get_tensor(name).float() for name in file.keys()})  # noqa: SIM118
        notes = json.loads(file.metadata()["notes"])
    network = (full_size(small) if large else small).to(device).eval()
    network.notes = notes
    return network


def examples(events, seed, **counts):
    """Examples of so many simulated events; `counts` go to `lartpc.draw_primaries`."""
    rng, place, found = np.random.default_rng(seed), Detector(), []
    for _ in range(events):
        event = simulate(draw_primaries(place, rng, **counts), place, rng)
        _, hits, patches = prepare(event)
        kinds = np.concatenate(list(map(hit_truth, hits, event.truth)))
        kinds = np.where(kinds < 0, NONE, kinds)
        kept = rng.random(len(kinds)) < np.array([*KEPT.values(), 1.0])[kinds]
        empty = torch.randn(int(EMPTY * kept.sum()), 48, 48) * patches.abs().median()
        own = np.append(kinds[kept], [NONE] * len(empty))
        found.append((torch.cat([patches[kept], empty]), own))
    patches, kinds = zip(*found, strict=True)
    return Examples(torch.cat(patches), torch.as_tensor(np.concatenate(kinds)))


def loss_of(network, patches, kinds):
    """0.1 · cross-entropy + squared error of the Michel output; to the first it is a shower."""
    three, one = network(patches)
    target = torch.where(kinds == MICHEL, EM, kinds).where(kinds != NONE, 2)
    michel = (kinds == MICHEL).to(one.dtype)
    return 0.1 * nn_f.cross_entropy(three, target) + nn_f.mse_loss(one[:, 0].sigmoid(), michel)


def train(network, seen, rate, batch=48, seed=0):
    """The mean loss of one epoch; moves the network. Patches are mirrored at random."""
    if not len(seen.kinds):
        raise ValueError("no examples came; at least one is needed to learn from")
    drawn, total = torch.Generator().manual_seed(seed), 0.0
    mover = torch.optim.Adam(network.parameters(), rate)
    network.train()
    for rows in torch.randperm(len(seen.kinds), generator=drawn).split(batch):
        flipped = [axis for axis in (1, 2) if torch.rand((), generator=drawn) < 0.5]
        loss = loss_of(network, seen.patches[rows].flip(flipped), seen.kinds[rows])
        mover.zero_grad()
        loss.backward()
        mover.step()
        total += float(loss.detach()) * len(rows)
    return total / len(seen.kinds)


def main():
    """Train, judge, write."""
    seen, unseen = examples(EVENTS, seed=1, **MIX), examples(4, seed=2)
    torch.manual_seed(0)
    network = EmMichelTrack(FILTERS, pool=POOL)
    for epoch in range(EPOCHS):
        loss = train(network, seen, 1e-3 * 0.85**epoch, seed=epoch)
        true = torch.where(unseen.kinds == NONE, -1, unseen.kinds).numpy()
        found = quality(kinds_of(*infer(network, unseen.patches)), true)
        print(f"epoch {epoch}: loss {loss:.4f}", found, flush=True)
    rounded = {name: (round(e, 3), round(p, 3), n) for name, (e, p, n) in found.items()}
    notes = {"events": EVENTS, "epochs": EPOCHS, "patches": len(seen.kinds)}
    notes |= {"efficiency, purity, hits": rounded}
    state = {n: x.detach().half().contiguous() for n, x in network.state_dict().items()}
    save_file(state, FILE, {"notes": json.dumps(notes)})


if __name__ == "__main__":
    main()
