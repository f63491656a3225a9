"""The race: an update of Adam with both moments in 8 bits, ours, torchao's and bitsandbytes',
beside PyTorch's Adam in 32. Equal answers come first: after the same updates the weights may be
no further from those of 32 bits than a part of the way that these went.

In the chapter's folder, a receipt or a quick look:

    python -m bench_byte_adam
    python -m bench_byte_adam --rounds 3 --width 128

torchao's update is compiled before the clock starts (some 25 seconds, and a C++ compiler);
without `compile` it would be another optimiser. All of a contestant's updates are of the same
gradients, made outside of the clock.
"""

import argparse
import importlib.util

import torch
from byte_adam import ByteAdam
from helpers import bench, check, device, receipts

FAR = 0.05  # of the way of Adam in 32 bits: what 8 bits may differ by after `UPDATES`
UPDATES, RATE = 20, 1e-3


def network(width=512):
    """Two dense layers without biases, 4·width² weights, the same each time."""
    torch.manual_seed(0)
    return torch.nn.Sequential(
        torch.nn.Linear(width, 2 * width, bias=False),
        torch.nn.ReLU(),
        torch.nn.Linear(2 * width, width, bias=False),
    )


def gradients(model, seed):
    """None; each parameter gets the gradient of one batch of random numbers."""
    random = torch.Generator().manual_seed(seed)
    x = torch.randn(64, model[0].in_features, generator=random)
    model.zero_grad()
    (model(x) - x.roll(1, 1)).square().mean().backward()


def updates(model, optimizer, count):
    """None; so many steps, each of a batch of its own."""
    for seed in range(count):
        gradients(model, seed)
        optimizer.step()


def makers():
    """{name: makes an optimiser of parameters}; a peer that is not installed is left out."""
    made = {"32 bits": lambda p: torch.optim.Adam(p, lr=RATE, foreach=False)}
    made["ours"] = lambda p: ByteAdam(p, lr=RATE)
    if importlib.util.find_spec("torchao"):
        from torchao.optim import Adam8bit

        made["torchao"] = lambda p: Adam8bit(p, lr=RATE, block_size=2048)
    if importlib.util.find_spec("bitsandbytes"):
        from bitsandbytes.optim import Adam8bit as Bits

        made["bitsandbytes"] = lambda p: Bits(p, lr=RATE)
    return made


def state_bytes(optimizer):
    """Bytes of all tensors in an optimiser's state, those inside of torchao's tensors too; a
    table that moments share is counted once."""
    found, waiting = {}, [dict(optimizer.state)]
    while waiting:
        one = waiting.pop()
        if isinstance(one, dict):
            waiting += one.values()
        elif isinstance(one, tuple | list):
            waiting += one
        elif hasattr(one, "__tensor_flatten__"):
            waiting += [getattr(one, name) for name in one.__tensor_flatten__()[0]]
        elif torch.is_tensor(one):
            found[one.untyped_storage().data_ptr()] = one.untyped_storage().nbytes()
    return sum(found.values())


def ways(made, width):
    """({name: (model, optimizer)} after `UPDATES`, {name: how far from 32 bits' weights, as a
    part of the way that these went})."""
    runs = {}
    for name, make in made.items():
        model = network(width)
        runs[name] = model, make(model.parameters())
        updates(*runs[name], UPDATES)
    flat = {
        n: torch.cat([p.detach().flatten() for p in m.parameters()])
        for n, (m, _) in runs.items()
    }
    start = torch.cat([p.detach().flatten() for p in network(width).parameters()])
    way = (flat["32 bits"] - start).norm()
    return runs, {n: ((one - flat["32 bits"]).norm() / way).item() for n, one in flat.items()}


def main(arguments=None):
    """Check, race, print the table and the receipt's path."""
    options = _options(arguments)
    torch.set_num_threads(options.threads)
    receipt = receipts.start("memory_budget", device.tier("cpu"), threads=options.threads)
    made = makers()
    for name in {"torchao", "bitsandbytes"} - made.keys():
        print(f"left out: {name} is not installed")
    runs, apart = ways(made, options.width)
    for name, one in apart.items():
        check.that(one < FAR, f"{name} went {one:.3f} of the way elsewhere; {FAR} is allowed")
    race = bench.race(
        {name: optimizer.step for name, (_, optimizer) in runs.items()},
        repeats=options.rounds,
        warmup=3,
        reference="32 bits",
        device="cpu",
    )
    print(race)
    receipt.sizes(weights=4 * options.width**2, updates=UPDATES)
    record(receipt, race, {n: state_bytes(o) for n, (_, o) in runs.items()}, apart)
    print(receipt.write(name="byte_adam"))


def record(receipt, race, states, apart):
    """Time, bytes and way of each contestant, and ours over torchao's."""
    for name, found in race.results.items():
        key = name.replace(" ", "_")
        receipt.record(f"step_ms_{key}", bench.spread(1e3 * s for s in found.times_s), "ms")
        receipt.record(f"state_mb_{key}", states[name] / 1e6, "MB")
        receipt.record(f"apart_{key}", 100 * apart[name], "%")
    if "torchao" in states:
        part = states["ours"] / states["torchao"]
        receipt.record("state_over_torchao", part, "of theirs", interval="exact")
        ratio = bench.ratio(race.results["torchao"], race.results["ours"])
        receipt.record("speed_over_torchao", ratio)


def _options(arguments):
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    for name, default, words in (
        ("rounds", 20, "interleaved rounds"),
        ("threads", device.cores(), "of torch"),
        ("width", 512, "of the network; it has 4·width² weights"),
    ):
        parser.add_argument(
            f"--{name}", type=int, default=default, help=f"{words} (default: %(default)s)"
        )
    return parser.parse_args(arguments)


if __name__ == "__main__":
    main()
