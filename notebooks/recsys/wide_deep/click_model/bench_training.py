"""The race: training Wide & Deep beside `pytorch-widedeep`, and what the machine's peaks would
allow.

    python -m click_model.bench_training         # this machine's tier, 20 rounds; a receipt
    python -m click_model.bench_training --rounds 5 --rows 8192

Data and model are the same for all: 13 categories with the published buckets and widths (scaled
at tier cpu), 13 numbers, no multi-hot features, which the peer lacks; before the clock starts
its logits are held against ours with equal weights. Buckets are drawn from a power law. The
peer comes twice, with torch's RMSprop: as its `Trainer` runs it, which fetches row by row, and
its bare model in our loop. Ours has FTRL for the wide part, dense and sparse gradients, and is
compiled by Inductor, too. What the peer imports for texts and images may be absent.
"""

import argparse
import functools
import shutil
import sys
from dataclasses import replace
from unittest import mock

import numpy as np
import torch
from helpers import bench, device, receipts
from torch import nn
from torch.nn import functional

from .network import Sizes, WideDeep
from .training import Options, Rows, Trainer, predict

# imported by the peer for texts and images, which a table needs not
UNUSED = "gensim gensim.utils spacy spacy.symbols torchvision torchvision.transforms cv2"
UNUSED += " torchvision.models torchvision.models._api einops transformers pandas torchmetrics"


def draw(sizes, rows, seed=0):
    """A data set of drawn clicks; buckets follow a power law, as ads and places do."""
    rng = np.random.default_rng(seed)
    powers = [rng.random(rows) ** 4 * n for n in sizes.buckets]
    hot = [rng.integers(0, n, (rows, 3)) for n in sizes.hot_buckets]
    return {
        "categories": torch.tensor(np.stack(powers, 1).astype(np.int64)),
        "multi_hot": torch.tensor(np.stack(hot, 1)) if hot else torch.zeros(rows, 0, 3).long(),
        "numbers": torch.tensor(rng.standard_normal((rows, sizes.numbers), np.float32)),
        "clicked": torch.tensor((rng.random(rows) < 0.2).astype(np.float32)),
    }


def comparable(sizes):
    """The sizes without multi-hot features."""
    return replace(sizes, hot_buckets=(), hot_dims=())


@functools.cache
def peer_modules():
    """(models, Trainer) of pytorch-widedeep, or None where it is not installed."""
    import torch._dynamo  # noqa: F401 - it asks for modules' specs, which what stands in for one lacks

    absent = {}
    for name in UNUSED.split():
        try:
            __import__(name)
        except ImportError:
            absent[name] = mock.MagicMock(__path__=[], __spec__=None)
    with mock.patch.dict(sys.modules, absent):
        try:
            from pytorch_widedeep import Trainer as PeerTrainer
            from pytorch_widedeep import models
        except ImportError:
            return None
    return models, PeerTrainer


def peer_model(models, sizes, dropout=0.1):
    """The peer's model of these sizes; it adds a padding row per table, and its wide part
    sees no numbers."""
    names = [f"c{i}" for i in range(len(sizes.buckets))]
    numbers = [f"x{i}" for i in range(sizes.numbers)]
    deep = models.TabMlp(
        column_idx={name: i for i, name in enumerate(names + numbers)},
        cat_embed_input=list(zip(names, sizes.buckets, sizes.dims, strict=True)),
        continuous_cols=numbers,
        mlp_hidden_dims=list(sizes.hidden),
        mlp_dropout=dropout,
    )
    wide = models.Wide(input_dim=sum(sizes.buckets), pred_dim=1)
    return models.WideDeep(wide=wide, deeptabular=deep, pred_dim=1)


def peer_inputs(sizes, data):
    """The peer's input: rows of its wide table and its table of codes and numbers."""
    offsets = torch.tensor([0, *sizes.buckets]).cumsum(0)[:-1]
    codes = (data["categories"] + 1).float()
    both = torch.cat([codes, data["numbers"]], 1)
    return {"wide": data["categories"] + 1 + offsets, "deeptabular": both}


def copy_weights(ours, peer):
    """Gives the peer's model our weights, but for the wide part's numbers, which it lacks."""
    state, sizes = peer.state_dict(), ours.sizes
    tables = {}
    for weight, own in zip(ours.deep.tables.weights, ours.deep.tables.features, strict=True):
        tables |= dict(zip(own, weight.split([sizes.buckets[c] for c in own]), strict=True))
    layers = [layer for layer in ours.deep.layers if isinstance(layer, nn.Linear)]
    layers = iter([*layers, ours.deep.last])
    with torch.no_grad():
        state["wide.wide_linear.weight"][1:] = ours.wide.weight
        state["wide.bias"].copy_(ours.wide.bias)
        for c, table in tables.items():
            name = next(n for n in state if n.endswith(f"emb_layer_c{c}.weight"))
            state[name][1:] = table
        linear = [
            n for n in state if state[n].dim() == 2 and "emb" not in n and "wide." not in n
        ]
        for name, layer in zip(linear, layers, strict=True):
            state[name].copy_(layer.weight)
            state[name.replace("weight", "bias")].copy_(layer.bias)


def training(sizes, data, batch, place="cpu"):
    """The functions to race by name: each trains one pass over the data set."""
    rows = Rows(data, batch, device=place)
    pairs, kinds = {}, {"dense gradients": (False, False), "sparse gradients": (True, False)}
    if shutil.which("c++"):  # Inductor's own on a CPU
        kinds["dense gradients, compiled"] = (False, True)
    for name, (sparse, compiled) in kinds.items():
        torch.manual_seed(0)
        model = WideDeep(sizes, sparse=sparse).to(place)
        trainer = Trainer(model, Options(compile=compiled), len(rows))
        pairs[f"ours, {name}"] = lambda t=trainer: [t.step(part) for part in rows]
    if found := peer_modules():
        models, PeerTrainer = found
        pairs["pytorch-widedeep, model alone"] = _peer_loop(models, sizes, data, batch, place)
        inputs = {n: x.numpy() for n, x in peer_inputs(sizes, data).items()}
        model = peer_model(models, sizes)
        optimisers = {
            name: torch.optim.RMSprop(part.parameters(), lr=1.2e-4, alpha=0.5)
            for name, part in (("wide", model.wide), ("deeptabular", model.deeptabular))
        }
        trainer = PeerTrainer(
            model, "binary", optimizers=optimisers, verbose=0, num_workers=0, device=place
        )
        pairs["pytorch-widedeep, its Trainer"] = lambda: trainer.fit(
            X_wide=inputs["wide"],
            X_tab=inputs["deeptabular"],
            target=data["clicked"].numpy(),
            batch_size=batch,
        )
    return pairs


def _peer_loop(models, sizes, data, batch, place):
    model = peer_model(models, sizes).to(place)
    optimiser = torch.optim.RMSprop(model.parameters(), lr=1.2e-4, alpha=0.5)
    inputs = Rows(peer_inputs(sizes, data) | {"clicked": data["clicked"]}, batch, device=place)

    def epoch():
        for part in inputs:
            optimiser.zero_grad(set_to_none=True)
            logits = model(part)[:, 0]
            functional.binary_cross_entropy_with_logits(logits, part["clicked"]).backward()
            optimiser.step()

    return epoch


def work(sizes, rows, batch):
    """(FLOPs, bytes) of training on `rows` at least: products; gathered rows and activations
    there and back; tables' gradients, states and weights once per step."""
    widths = [sum(sizes.dims) + sum(sizes.hot_dims) + sizes.numbers, *sizes.hidden, 1]
    products = sum(a * b for a, b in zip(widths, widths[1:], strict=False))
    tables = sum(n * d for n, d in zip(sizes.buckets, sizes.dims, strict=True))
    tables += sum(n * d for n, d in zip(sizes.hot_buckets, sizes.hot_dims, strict=True))
    gathered = 4 * (sum(sizes.dims) + 3 * sum(sizes.hot_dims))
    moved = 2 * rows * (gathered + 2 * 4 * sum(widths))
    # weight and v are read and written, the gradient is filled, added to, read
    return 6 * products * rows, moved + -(-rows // batch) * 4 * 7 * (tables + products)


def limit_s(sizes, rows, batch, place="cpu"):
    """Seconds that the pass takes at the device's measured peaks, products then traffic."""
    flops, moved = work(sizes, rows, batch)
    peak = bench.peak(place)
    return flops / peak.matmul_flops_per_s + moved / peak.copy_bytes_per_s


def check(sizes, data):
    """None; raises AssertionError where the peer's logits are not ours with equal weights."""
    if found := peer_modules():
        ours, peer = WideDeep(sizes).eval(), peer_model(found[0], sizes).eval()
        nn.init.normal_(ours.wide.weight)
        copy_weights(ours, peer)
        part = {name: values[:256] for name, values in data.items()}
        with torch.no_grad():
            theirs = peer(peer_inputs(sizes, part))[:, 0]
        torch.testing.assert_close(predict(ours, part), theirs, rtol=1e-4, atol=1e-4)


def main(argv=None):
    """Race at this machine's size and write the receipt."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--threads", type=int, default=device.cores())
    parser.add_argument("--rows", type=int, help="rows of a pass")
    args = parser.parse_args(argv)
    torch.set_num_threads(args.threads)
    tier = device.tier()
    receipt = receipts.start("wide_deep", tier, args.threads)
    if not peer_modules():
        print("pytorch-widedeep is left out: it is not installed")
    full = Sizes.published()
    sizes = tier.pick(cpu=full.scaled(0.1, 0.25, (256,) * 3), gpu=full, big=full)
    batch = tier.pick(cpu=4096, gpu=32_768, big=131_072)
    rows = args.rows or 2 * batch
    receipt.sizes(rows=rows, batch=batch)
    data = draw(comparable(sizes), rows)
    check(comparable(sizes), data)
    pairs = training(comparable(sizes), data, batch, tier.device)
    race = bench.race(pairs, args.rounds, 1, reference="ours, dense gradients")
    print(race)
    allowed = limit_s(comparable(sizes), rows, batch, tier.device)
    record_training(receipt, race, rows, allowed)
    print(receipt.write(name="training"))


def record_training(receipt, race, rows, allowed):
    """Record samples a second, the share of the limit, and how many times as fast as the peer
    we are, round by round."""
    ours = race.results["ours, dense gradients"]
    for name, found in race.results.items():
        stem = name.replace(",", "").replace(" ", "_").replace("-", "_").lower()
        receipt.record(f"train_rate_{stem}", found, "samples/s", count=rows)
        if name.startswith("pytorch-widedeep"):
            receipt.record(f"speedup_over_{stem}", bench.ratio(found, ours))
    print(f"training reaches {allowed / ours.median_s:.0%} of its limit")
    receipt.record("train_share_of_limit", allowed / ours.median_s, "")


if __name__ == "__main__":
    main()
