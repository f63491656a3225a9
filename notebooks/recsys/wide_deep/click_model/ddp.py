"""Wide & Deep over several processes, GPUs or machines, equal to one process.

torch's DistributedDataParallel keeps a whole model in every process. Each takes its own part of
every batch (`loader.Loader(rank, ranks)`); after the backward pass the gradients are averaged
over processes, so all take the same step, that of `training`. With dropout 0 the result is that
of one process up to the order of additions; with dropout each process draws its own.

Every step moves the gradients of all tables, 367 MB at the published size: the article's
repository does the same (`sparse_as_dense`). DDP sums sparse gradients only of torch's own
embedding modules, and NCCL none at all, so `write_run` refuses them.

    torchrun --nproc-per-node 8 -m click_model.ddp run.json

trains what `write_run` wrote into run.json, with the slice's folder the current one or on
PYTHONPATH. `launch` does both on this machine, bounded in time.
"""

import argparse
import json
import os
import re
import subprocess
import sys
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


def write_run(path, train, valid, folder, sizes, options=None, **model):
    """The path of a JSON file that says what to train, on what, and where the result goes.

    train, valid: folders of `write_batches`. folder: where `training.fit` keeps the state after
    each epoch, so that the same run goes on after a kill. model: parts and dropout of
    `WideDeep`; `dtype`, "float32" or "float64". Raises ValueError for sparse=True.
    """
    if model.get("sparse"):
        raise ValueError("sparse=True: processes exchange dense gradients; allowed is False")
    run = {"train": str(train), "valid": str(valid), "folder": str(folder)}
    run |= {"sizes": asdict(sizes), "options": asdict(options or Options())}
    Path(path).write_text(json.dumps(run | {"model": model}, indent=1), encoding="utf-8")
    return Path(path)


def launch(run, ranks=2, timeout_s=300, script=None):
    """What the run came to: a dict with `curve`, `weights`, `ranks`.

    >>> launch(write_run("run.json", "train", "valid", "kept", sizes))["curve"][-1]

    run: of `write_run`. Starts `ranks` processes on this machine by torchrun and waits. Raises
    RuntimeError with the errors that they told when one fails, TimeoutError after `timeout_s`;
    none is left running in either case.
    """
    command = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", str(ranks)]
    command += ["--rdzv-backend", "c10d", "--rdzv-endpoint", "127.0.0.1:0"]
    command += [str(script)] if script else ["-m", "click_model.ddp"]
    command += [str(run), "--message-s", str(timeout_s)]
    path = os.pathsep.join([str(SLICE), *filter(None, [os.environ.get("PYTHONPATH")])])
    own = {"OMP_NUM_THREADS": os.environ.get("OMP_NUM_THREADS", "1"), "PYTHONPATH": path}
    told = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
    process = subprocess.Popen(command, env=os.environ | own, **told)
    try:
        told, _ = process.communicate(timeout=timeout_s)
    except BaseException as error:  # an interrupt too must leave no worker behind
        _stop(process)
        if isinstance(error, subprocess.TimeoutExpired):
            raise TimeoutError(f"{ranks} processes took more than {timeout_s} s") from error
        raise
    if process.returncode:
        causes = [x for x in told.splitlines() if re.search(r"\w(Error|Exception): ", x)]
        told = "\n".join(causes[:8]) or told[-2000:]
        raise RuntimeError(f"training on {ranks} processes failed:\n{told}")
    folder = json.loads(Path(run).read_text(encoding="utf-8"))["folder"]
    state = torch.load(Path(folder, "state.pt"), weights_only=True, map_location="cpu")
    found = {name: state[name] for name in ("curve", "weights")}
    return found | {"ranks": len(state["chance"])}


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


def train(run, device):
    """None; trains what `write_run` wrote, called by all of a group."""
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
    fit(model, loader, valid, options, folder=run["folder"], forward=wrapped)


def main(argv=None):
    """Train as one of the processes that torchrun started."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("run", help="JSON file of `write_run`")
    parser.add_argument("--message-s", type=float, default=300, help="a message's time limit")
    args = parser.parse_args(argv)
    ranks = (int(os.environ[name]) for name in ("LOCAL_RANK", "LOCAL_WORLD_SIZE"))
    backend, device = placed(*ranks, torch.cuda.device_count())
    if device != "cpu":
        torch.cuda.set_device(device)
    dist.init_process_group(backend, timeout=timedelta(seconds=args.message_s))
    try:
        train(json.loads(Path(args.run).read_text(encoding="utf-8")), torch.device(device))
    finally:
        dist.destroy_process_group()


if __name__ == "__main__":
    main()
