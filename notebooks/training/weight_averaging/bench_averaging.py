"""The race: what an average costs for each step, and the loop against a plain `DataLoader`'s.

    python -m bench_averaging --rounds 5 --threads 1        # a receipt; 20 rounds by default

An update of an exponential average is raced alone, beside one training step of the same
network: ours with and without its look for NaN, and torch's `AveragedModel`. All must agree
first. Then an epoch of the loop (`helpers.images`): bytes on the device, against a `DataLoader`
that hands out image by image, and one that hands out whole batches of the same bytes.
"""

import argparse
import copy
import functools
import itertools

import torch
from averaging import WeightAverage
from fashion_task import SGD, draw, load
from helpers import bench, check, data, device, receipts
from helpers.images import train
from loss_plane import weights_of
from small_resnet import SmallResNet
from torch.nn import functional as F
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn
from torch.utils.data import BatchSampler, DataLoader, RandomSampler, TensorDataset
from torch.utils.flop_counter import FlopCounterMode

EMA, RATE = 0.99, 0.01
# The name of a metric, and what tables say.
UPDATES = {"ours": "ours", "ours_checked": "ours, with the look for NaN"}
UPDATES |= {"torch": "torch's AveragedModel"}
LOOPS = {"loop": "bytes on the device", "loader": "DataLoader, image by image"}
LOOPS |= {"loader_batches": "DataLoader, whole batches"}


def averages(model):
    """{name: (function that takes the model in, the averaged model)}."""
    ours, checked = (WeightAverage(model, EMA, check=check) for check in (False, True))
    theirs = AveragedModel(model, multi_avg_fn=get_ema_multi_avg_fn(EMA))
    found = {"ours": (ours.update, ours.model), "ours_checked": (checked.update, checked.model)}
    return found | {"torch": (theirs.update_parameters, theirs.module)}


def agree(models):
    """The largest difference of our averages from torch's; Failed above 1e-6."""
    ways = averages(models[0])
    for model, (update, _) in itertools.product(models, ways.values()):
        update(model)
    found = {name: weights_of(averaged) for name, (_, averaged) in ways.items()}
    why = "float32 weights below 1, a few roundings each"
    names = ("ours", "ours_checked")
    return max(check.close(found[name], found["torch"], atol=1e-6, why=why) for name in names)


def training_step(model, images, batch):
    """A function that makes one step of SGD on the first batch."""
    optimiser = SGD(model.parameters(), lr=RATE)
    index = torch.arange(batch, device=images.labels_N.device)
    return lambda: _step(model, optimiser, *images.at(index))


def _step(model, optimiser, x_BCHW, labels_B):
    """The loss of one step, still on the device."""
    loss = F.cross_entropy(model(x_BCHW), labels_B)
    optimiser.zero_grad(set_to_none=True)
    loss.backward()
    optimiser.step()
    return loss.detach()


def flops_of(step):
    """The FLOPs of a step's convolutions and products, forward and backward."""
    with FlopCounterMode(display=False) as counted:
        step()
    return counted.get_total_flops()


def loaders(images, batch):
    """{name: DataLoader} of the bytes, with pinned memory where there is a GPU."""
    source = TensorDataset(images.pixels_NCHW.cpu(), images.labels_N.cpu())
    how = {"pin_memory": images.labels_N.is_cuda}
    whole = BatchSampler(RandomSampler(source), batch, drop_last=True)
    one = DataLoader(source, batch, shuffle=True, drop_last=True, **how)
    return {"loader": one, "loader_batches": DataLoader(source, None, sampler=whole, **how)}


def loader_epoch(model, loader, optimiser, images):
    """One epoch of the plain loop over a loader; the mean loss stays on the device."""
    model.train()
    total = torch.zeros((), device=images.labels_N.device)
    for batch in loader:
        pixels, labels = (one.to(total.device, non_blocking=True) for one in batch)
        total += _step(model, optimiser, (pixels.float() - images.mean) / images.std, labels)
    return total.item()


def epochs_of(model, images, batch):
    """{label: function that trains a copy of the model for one epoch}."""
    found, how = {}, {"epochs": 1, "batch": batch}
    for name, loader in {"loop": None, **loaders(images, batch)}.items():
        own = copy.deepcopy(model)
        optimiser = SGD(own.parameters(), lr=RATE)
        plain = functools.partial(loader_epoch, own, loader, optimiser, images)
        ours = functools.partial(train, own, images, optimiser, **how)
        found[LOOPS[name]] = plain if loader else ours
    return found


def main(argv=None):
    """Check, race, and write the receipt."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--threads", type=int, default=device.cores())
    given = parser.parse_args(argv)
    torch.set_num_threads(given.threads)
    tier = device.tier()
    small, large = (2_000, 16, 128), (60_000, 64, 512)
    count, width, batch = tier.pick(cpu=small, gpu=large, big=large)
    receipt = receipts.start("weight_averaging", tier, given.threads)
    images = draw(load(data.fetch("fashion_mnist"), "train", tier.device), count)
    models = [SmallResNet(width).to(tier.device) for _ in range(5)]
    receipt.record("difference_to_torch", agree(models), "absolute")
    model, weights = models[0], weights_of(models[0]).numel()
    sizes = {"images": count, "width": width, "batch": batch}
    receipt.sizes(**sizes, rounds=given.rounds, weights=weights)
    step, ways = training_step(model, images, batch), averages(model)
    calls = {UPDATES[name]: functools.partial(way, model) for name, (way, _) in ways.items()}
    race = bench.race(calls | {"one step": step}, given.rounds, reference="one step")
    took = race.results["one step"]
    peak = bench.peak(took.device)
    receipt.record("time_step", took)
    for name, label in UPDATES.items():
        receipt.record(f"time_{name}", race.results[label])
        receipt.record(f"step_over_{name}", race.ratios[label])
    predicted = 3 * 4 * weights / peak.copy_bytes_per_s  # read weights and average, write it
    receipt.record("update_predicted", predicted, "s", device=took.device)
    share = flops_of(step) / took.median_s / peak.matmul_flops_per_s
    receipt.record("step_share_of_peak", 100 * share, "%", device=took.device)
    loops = bench.race(epochs_of(model, images, batch), given.rounds, warmup=1)
    print(race, loops, sep="\n")
    for name, label in LOOPS.items():
        trained = count // batch * batch
        receipt.record(f"images_rate_{name}", loops.results[label], "images/s", count=trained)
        receipt.record(f"speedup_of_{name}", loops.ratios[label])
    print(receipt.write("race" if given.threads == device.cores() else f"race_{given.threads}"))


if __name__ == "__main__":
    main()
