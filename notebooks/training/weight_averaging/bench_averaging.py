"""The race: what an average costs for each step, and the loop against a plain `DataLoader`'s.

    python -m bench_averaging                 # 20 rounds; a receipt
    python -m bench_averaging --rounds 5 --threads 1

An update of the average is raced alone, beside one training step of the same network: ours with
and without its look for NaN, and torch's `AveragedModel` with an equal and an exponential
average. All must agree before they are timed. Then one epoch of the loop: images as bytes on
the device, against a `DataLoader` that hands out image by image, one with two workers, and one
that is given whole batches, each over the same bytes and with the same network and optimiser.
"""

import argparse
import copy
import functools
import itertools

import torch
from averaging import WeightAverage
from fashion_task import draw, load
from helpers import bench, check, data, device, receipts
from loss_plane import weights_of
from small_resnet import SmallResNet
from small_training import Recipe, train
from torch.nn import functional as F
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn
from torch.utils.data import BatchSampler, DataLoader, Dataset, RandomSampler
from torch.utils.flop_counter import FlopCounterMode

EMA = 0.99
UPDATES = {
    "ours": "ours",
    "ours_checked": "ours, with the look for NaN",
    "ours_ema": "ours, exponential",
    "torch": "torch's AveragedModel",
    "torch_ema": "torch's AveragedModel, exponential",
}  # the name of a metric, and what tables say
LOOPS = {
    "loop": "bytes on the device",
    "loader": "DataLoader, image by image",
    "loader_workers": "DataLoader, two workers",
    "loader_batches": "DataLoader, whole batches",
}


def averages(model):
    """{name: (function that takes the model in, one that returns the averaged weights)}."""
    ours = {
        "ours": WeightAverage(model, check=False),
        "ours_checked": WeightAverage(model),
        "ours_ema": WeightAverage(model, EMA, check=False),
    }
    theirs = {
        "torch": AveragedModel(model),
        "torch_ema": AveragedModel(model, multi_avg_fn=get_ema_multi_avg_fn(EMA)),
    }
    found = {
        name: (one.update, lambda one=one: weights_of(one.model)) for name, one in ours.items()
    }
    return found | {
        name: (one.update_parameters, lambda one=one: weights_of(one.module))
        for name, one in theirs.items()
    }


def agree(models):
    """The largest difference of our averages from torch's; Failed above 1e-6."""
    ways = averages(models[0])
    for model, (update, _) in itertools.product(models, ways.values()):
        update(model)
    found = {name: weights() for name, (_, weights) in ways.items()}
    pairs = ("ours", "torch"), ("ours_checked", "torch"), ("ours_ema", "torch_ema")
    why = "float32 weights below 1, a few roundings each"
    return max(check.close(found[a], found[b], atol=1e-6, why=why) for a, b in pairs)


def training_step(model, images, batch):
    """A function that makes one step of SGD on the first batch."""
    optimiser = torch.optim.SGD(model.parameters(), 0.01, momentum=0.9, foreach=True)
    index = torch.arange(batch, device=images.labels_N.device)

    def step():
        x_BCHW, labels_B = images.at(index)
        loss = F.cross_entropy(model(x_BCHW), labels_B)
        optimiser.zero_grad(set_to_none=True)
        loss.backward()
        optimiser.step()

    return step


def flops_of(step):
    """The FLOPs of a step's convolutions and products, forward and backward."""
    with FlopCounterMode(display=False) as counted:
        step()
    return counted.get_total_flops()


class Bytes(Dataset):
    """The same bytes on the host: a `Dataset` of images, or of batches by lists of numbers."""

    def __init__(self, images):
        self.pixels, self.labels = images.pixels_NCHW.cpu(), images.labels_N.cpu()
        self.mean, self.std = images.mean.cpu(), images.std.cpu()

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, index):
        return (self.pixels[index].float() - self.mean) / self.std, self.labels[index]


def loaders(images, batch):
    """{name: DataLoader}, each with pinned memory where there is a GPU."""
    source, pin = Bytes(images), images.labels_N.is_cuda
    one = functools.partial(
        DataLoader, source, batch, shuffle=True, drop_last=True, pin_memory=pin
    )
    whole = BatchSampler(RandomSampler(source), batch, drop_last=True)
    return {
        "loader": one(),
        "loader_workers": one(num_workers=2, persistent_workers=True),
        "loader_batches": DataLoader(source, None, sampler=whole, pin_memory=pin),
    }


def loader_epoch(model, loader, optimiser, where):
    """One epoch of the plain loop over a loader; the mean loss stays on the device."""
    model.train()
    total = torch.zeros((), device=where)
    for x_BCHW, labels_B in loader:
        x_BCHW, labels_B = (
            x_BCHW.to(where, non_blocking=True),
            labels_B.to(where, non_blocking=True),
        )
        loss = F.cross_entropy(model(x_BCHW), labels_B)
        optimiser.zero_grad(set_to_none=True)
        loss.backward()
        optimiser.step()
        total += loss.detach()
    return total.item()


def epochs_of(model, images, batch):
    """{label: function that trains a copy of the model for one epoch}."""
    where, optimise = images.labels_N.device, Recipe().optimiser
    own, recipe = copy.deepcopy(model), Recipe(epochs=1, batch=batch, rate=0.01)
    found = {LOOPS["loop"]: lambda: train(own, images, recipe)}
    for name, loader in loaders(images, batch).items():
        net = copy.deepcopy(model)
        optimiser = optimise(net.parameters(), lr=0.01)
        found[LOOPS[name]] = functools.partial(loader_epoch, net, loader, optimiser, where)
    return found


def record_updates(receipt, race, parameters, flops):
    """Record the times of updates, the step, their ratio, and the step's share of the peak."""
    step, peak = race.results["one step"], bench.peak(race.results["one step"].device)
    receipt.record("time_step", step)
    for name, label in UPDATES.items():
        receipt.record(f"time_{name}", race.results[label])
        shares = [a / b for a, b in zip(race.results[label].times_s, step.times_s, strict=True)]
        receipt.record(f"overhead_{name}", *_quartiles(shares), device=step.device)
    predicted = 12 * parameters / peak.copy_bytes_per_s
    receipt.record("update_predicted", predicted, "s", device=step.device)
    share = flops / step.median_s / peak.matmul_flops_per_s
    receipt.record("step_share_of_peak", 100 * share, "%", device=step.device)


def _quartiles(shares):
    """(median, unit, low, high, repeats) of shares, in percent."""
    low, median, high = torch.tensor(shares).quantile(torch.tensor([0.25, 0.5, 0.75])).tolist()
    return 100 * median, "%", 100 * low, 100 * high, len(shares)


def main(argv=None):
    """Check, race, and write the receipt."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--threads", type=int, default=device.cores())
    parser.add_argument("--images", type=int, help="of an epoch")
    given = parser.parse_args(argv)
    torch.set_num_threads(given.threads)
    tier = device.tier()
    count = given.images or tier.pick(cpu=2_000, gpu=60_000, big=60_000)
    width, batch = tier.pick(cpu=16, gpu=64, big=64), tier.pick(cpu=128, gpu=512, big=512)
    receipt = receipts.start("weight_averaging", tier, given.threads)
    images = draw(load(data.fetch("fashion_mnist"), "train", tier.device), count)
    models = [SmallResNet(width).to(tier.device) for _ in range(5)]
    receipt.record("difference_to_torch", agree(models), "absolute")
    model = models[0]
    parameters = weights_of(model).numel()
    receipt.sizes(
        images=count, width=width, batch=batch, rounds=given.rounds, weights=parameters
    )
    step, ways = training_step(model, images, batch), averages(model)
    calls = {UPDATES[name]: functools.partial(ways[name][0], model) for name in UPDATES}
    race = bench.race(calls | {"one step": step}, given.rounds, reference="one step")
    print(race)
    record_updates(receipt, race, parameters, flops_of(step))
    loops = bench.race(epochs_of(model, images, batch), given.rounds, warmup=1)
    print(loops)
    trained = count // batch * batch
    for name, label in LOOPS.items():
        receipt.record(f"images_rate_{name}", loops.results[label], "images/s", count=trained)
        receipt.record(f"speedup_of_{name}", loops.ratios[label])
    print(receipt.write("race" if given.threads == device.cores() else f"race_{given.threads}"))


if __name__ == "__main__":
    main()
