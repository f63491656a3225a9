"""Makes `small_network.safetensors`: 8 filters and pooled pairs, trained on simulated events.

    python -m emmichel.train_network    # from the slice's folder; minutes; writes the file

`load_network()` makes the published size of it. Events of seed 1 teach, those of seed 2 say how
good it is; pages draw others. Adam in place of the published SGD, since it sees thousands of
patches and not millions. The seed fixes data, weights and order; another number of threads
rounds otherwise.
"""

import argparse
import json
from pathlib import Path

import torch
from reconstruction import kinds_of, quality
from safetensors import safe_open
from safetensors.torch import save_file

from .network import EmMichelTrack, full_size, infer
from .training import NONE, examples, train

__all__ = ["load_network"]

FILE = Path(__file__).with_name("small_network.safetensors")
FILTERS, POOL = 8, 2
MIX = {"muons": 3, "stopping": 12, "protons": 2, "showers": 2}  # rich in what is rare


def load_network(large=True, device="cpu"):
    """The trained network in eval mode, of the published size unless `large` is false; `notes`:
    how it was made and how good it was on events that it had not seen. FileNotFoundError
    without the file."""
    small = EmMichelTrack(FILTERS, pool=POOL)
    with safe_open(FILE, framework="pt") as file:
        names = list(file.keys())
        small.load_state_dict({name: file.get_tensor(name).float() for name in names})
        notes = json.loads(file.metadata()["notes"])
    network = (full_size(small) if large else small).to(device).eval()
    network.notes = notes
    return network


def main(argv=None):
    """Train, judge, write."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--events", type=int, default=12)
    parser.add_argument("--epochs", type=int, default=8)
    o = parser.parse_args(argv)
    seen, unseen = examples(o.events, seed=1, **MIX), examples(4, seed=2)
    torch.manual_seed(0)
    network = EmMichelTrack(FILTERS, pool=POOL)
    for epoch in range(o.epochs):
        rate = 1e-3 * 0.8**epoch
        loss = train(network, seen, 1, batch=48, seed=epoch, rate=rate, adam=True)[0]
        true = torch.where(unseen.kinds == NONE, -1, unseen.kinds).numpy()
        found = quality(kinds_of(*infer(network, unseen.patches)), true)
        print(f"epoch {epoch}: loss {loss:.4f}", found, flush=True)
        rounded = {name: (round(e, 3), round(p, 3), n) for name, (e, p, n) in found.items()}
        notes = {"events": o.events, "epochs": epoch + 1, "patches": len(seen.kinds)}
        notes |= {"efficiency, purity, hits": rounded}
        state = {n: x.detach().half().contiguous() for n, x in network.state_dict().items()}
        save_file(state, FILE, {"notes": json.dumps(notes)})


if __name__ == "__main__":
    main()
