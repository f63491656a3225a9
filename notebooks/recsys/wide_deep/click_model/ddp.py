"""Wide & Deep over several processes, GPUs or machines, equal to one process.

torch's DistributedDataParallel keeps a whole model in every process. Each takes its own part of
every batch (`loader.Loader(rank, ranks)`); after the backward pass the gradients are
averaged over processes, so all take the same step. DDP averages; we want the gradient of the
mean over the whole batch, also where the parts differ in rows, so each process weighs its sum
of losses by ranks / rows of the batch. With dropout 0 the result is that of one process up to
the order of additions; with dropout each process draws its own.

Every step moves the gradients of all tables, 367 MB at the published size: the article's
repository does the same (`sparse_as_dense`). DDP sums sparse gradients only of torch's own
embedding modules, and NCCL none at all, so `write_run` refuses them.

`torchrun` starts as many processes as there are cores, GPUs or machines:

    torchrun --nproc-per-node 8 -m click_model.ddp run.json

where run.json is what `write_run` makes, and the slice's folder is the current one or on
PYTHONPATH. `launch` does both on this machine, bounded in time.
"""

import argparse
import json
import os
import re
import subprocess
import sys
from contextlib import contextmanager
from dataclasses import asdict
from datetime import timedelta
from pathlib import Path

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from .batches import Batches
from .loader import Loader
from .network import Sizes, WideDeep
from .ranking import map_at_k
from .training import Options, Trainer, float32_products, predict, whole

SLICE = Path(__file__).resolve().parents[1]
STOP_S = 45  # torchrun gives its workers 30 s to end


def write_run(path, train, valid, out, sizes, options=None, **model):
    """The path of a JSON file that says what to train, on what, and where the result goes.

    train, valid: folders of `write_batches`. out: the .pt file that rank 0 writes. model: parts
    and dropout of `WideDeep`; `dtype`, "float32" or "float64". Raises ValueError for
    sparse=True.
    """
    if model.get("sparse"):
        raise ValueError("sparse=True: processes exchange dense gradients; allowed is False")
    names = {"train": str(train), "valid": str(valid), "out": str(out)}
    run = names | {"sizes": asdict(sizes), "options": asdict(options or Options())}
    Path(path).write_text(json.dumps(run | {"model": model}, indent=1), encoding="utf-8")
    return Path(path)


def launch(run, ranks=2, timeout_s=300, script=None):
    """What rank 0 wrote: a dict with `curve`, `weights`, `seconds`, `ranks`.

    >>> launch(write_run("run.json", "train", "valid", "model.pt", sizes))["curve"][-1]

    run: of `write_run`. Starts `ranks` processes on this machine by torchrun and waits. Raises
    RuntimeError with the errors that they told when one fails, TimeoutError after `timeout_s`;
    none is left running in either case.
    """
    out = Path(json.loads(Path(run).read_text(encoding="utf-8"))["out"])
    out.unlink(missing_ok=True)
    command = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", str(ranks)]
    command += ["--rdzv-backend", "c10d", "--rdzv-endpoint", "127.0.0.1:0"]
    command += [str(script)] if script else ["-m", "click_model.ddp"]
    command += [str(run), "--message-s", str(timeout_s)]
    path = os.pathsep.join([str(SLICE), *filter(None, [os.environ.get("PYTHONPATH")])])
    own = {"OMP_NUM_THREADS": os.environ.get("OMP_NUM_THREADS", "1"), "PYTHONPATH": path}
    process = subprocess.Popen(
        command,
        env=os.environ | own,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    try:
        told, _ = process.communicate(timeout=timeout_s)
    except BaseException as error:  # an interrupt too must leave no worker behind
        _stop(process)
        if isinstance(error, subprocess.TimeoutExpired):
            raise TimeoutError(f"{ranks} processes took more than {timeout_s} s") from error
        raise
    if process.returncode or not out.is_file():
        causes = [
            line for line in told.splitlines() if re.search(r"\w(Error|Exception): ", line)
        ]
        told = "\n".join(causes[:8]) or told[-2000:]
        raise RuntimeError(f"training on {ranks} processes failed:\n{told}")
    return torch.load(out, weights_only=True)


def _stop(process):
    process.terminate()  # torchrun then ends its workers
    try:
        process.communicate(timeout=STOP_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.communicate()


@contextmanager
def process_group(timeout_s):
    """The device of this process, in a group of all; NCCL with GPUs, else gloo."""
    cuda = torch.cuda.is_available()
    device = torch.device("cpu")
    if cuda:
        device = torch.device("cuda", int(os.environ["LOCAL_RANK"]) % torch.cuda.device_count())
        torch.cuda.set_device(device)
    dist.init_process_group("nccl" if cuda else "gloo", timeout=timedelta(seconds=timeout_s))
    try:
        yield device
    finally:
        dist.destroy_process_group()


def train(run, device):
    """The dict that `launch` returns, the same on every rank; called by all of a group."""
    rank, ranks = dist.get_rank(), dist.get_world_size()
    options = Options(**run["options"])
    given = dict(run["model"])
    dtype = getattr(torch, given.pop("dtype", "float32"))
    sizes = {n: tuple(v) if isinstance(v, list) else v for n, v in run["sizes"].items()}
    torch.manual_seed(options.seed)
    model = WideDeep(Sizes(**sizes), **given).to(device, dtype)
    wrapped = DistributedDataParallel(model, gradient_as_bucket_view=True)
    loader = Loader(Batches(run["train"]), device, 2, options.seed, rank, ranks)
    valid = whole(Loader(Batches(run["valid"]), "cpu", 0, None, rank, ranks))
    trainer = Trainer(model, options, len(loader), wrapped, ranks)
    torch.manual_seed(options.seed + 1000 * rank)  # dropout of its own
    curve, seconds = [], 0.0
    for number in range(1, options.epochs + 1):
        loss = _epoch(trainer, loader, dtype)
        seconds += loader.report.seconds
        curve.append({"epoch": number, "loss": loss, "map_at_12": _score(model, valid, dtype)})
    weights = {name: weight.cpu() for name, weight in model.state_dict().items()}
    return {"curve": curve, "weights": weights, "seconds": seconds, "ranks": ranks}


def _epoch(trainer, loader, dtype):
    """The mean training loss over all processes."""
    trainer.model.train()
    total = torch.zeros(2, dtype=torch.float64, device=trainer.device)
    with float32_products(trainer.options):
        for batch in loader:
            rows = torch.tensor(float(len(batch["clicked"])), device=trainer.device)
            dist.all_reduce(rows)
            loss = trainer.step(_cast(batch, dtype), rows)
            total += torch.stack([loss * rows, rows / trainer.ranks]).double()
    dist.all_reduce(total)
    return float(total[0] / total[1])


def _score(model, valid, dtype):
    """MAP@12 over the rows of all processes; displays may be cut between them."""
    own = {"score": predict(model, _cast(valid, dtype)).cpu()}
    own |= {name: valid[name] for name in ("clicked", "display_id")}
    parts = [None] * dist.get_world_size()
    dist.all_gather_object(parts, own)
    joined = whole(parts)
    return map_at_k(joined["score"], joined["clicked"], joined["display_id"])


def _cast(batch, dtype):
    return {n: x.to(dtype) if x.is_floating_point() else x for n, x in batch.items()}


def main(argv=None):
    """Train as one of the processes that torchrun started; rank 0 writes the result."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("run", help="JSON file of `write_run`")
    parser.add_argument("--message-s", type=float, default=300, help="a message's time limit")
    args = parser.parse_args(argv)
    run = json.loads(Path(args.run).read_text(encoding="utf-8"))
    with process_group(args.message_s) as device:
        found = train(run, device)
        if dist.get_rank() == 0:
            out = Path(run["out"])
            torch.save(found, out.with_name(f".{out.name}.partial"))
            os.replace(out.with_name(f".{out.name}.partial"), out)


if __name__ == "__main__":
    main()
