"""Wide & Deep over several processes, GPUs or machines, equal to one process.

torch's DistributedDataParallel keeps a whole model in every process. Each takes its own part of
every batch (`loader.Loader(rank, ranks)`); after the backward pass the gradients are averaged
over processes, so all take the same step, that of `training`. With dropout 0 the result is that
of one process up to the order of additions; with dropout each process draws its own.

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
from .training import Options, fit, whole

SLICE = Path(__file__).resolve().parents[1]
STOP_S = 45  # torchrun gives its workers 30 s to end


def write_run(path, train, valid, out, sizes, options=None, folder=None, **model):
    """The path of a JSON file that says what to train, on what, and where the result goes.

    train, valid: folders of `write_batches`. out: the .pt file that rank 0 writes. folder:
    where every process keeps its state after each epoch, so that the same run goes on after a
    kill. model: parts and dropout of `WideDeep`; `dtype`, "float32" or "float64". Raises
    ValueError for sparse=True.
    """
    if model.get("sparse"):
        raise ValueError("sparse=True: processes exchange dense gradients; allowed is False")
    names = {"train": str(train), "valid": str(valid), "out": str(out)}
    run = names | {"sizes": asdict(sizes), "options": asdict(options or Options())}
    run |= {"folder": folder and str(folder)}
    Path(path).write_text(json.dumps(run | {"model": model}, indent=1), encoding="utf-8")
    return Path(path)


def launch(run, ranks=2, timeout_s=300, script=None):
    """What rank 0 wrote: a dict with `curve`, `weights`, `ranks`.

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


def placed(local_rank, local_ranks, gpus):
    """(backend, device) of a process: NCCL with a GPU for each one of this machine, else gloo.

    NCCL refuses two processes on one GPU, so where there are fewer GPUs than processes these
    share them and talk through gloo.

    >>> placed(1, 2, gpus=2), placed(1, 2, gpus=1), placed(1, 2, gpus=0)
    (('nccl', 'cuda:1'), ('gloo', 'cuda:0'), ('gloo', 'cpu'))
    """
    device = f"cuda:{local_rank % gpus}" if gpus else "cpu"
    return "nccl" if gpus >= local_ranks else "gloo", device


@contextmanager
def process_group(timeout_s):
    """The device of this process, in a group of all."""
    ranks = (int(os.environ[name]) for name in ("LOCAL_RANK", "LOCAL_WORLD_SIZE"))
    backend, device = placed(*ranks, torch.cuda.device_count())
    if device != "cpu":
        torch.cuda.set_device(device)
    dist.init_process_group(backend, timeout=timedelta(seconds=timeout_s))
    try:
        yield torch.device(device)
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
    curve = fit(model, loader, valid, options, folder=run["folder"], forward=wrapped)
    weights = {name: weight.cpu() for name, weight in model.state_dict().items()}
    return {"curve": [asdict(one) for one in curve], "weights": weights, "ranks": ranks}


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
