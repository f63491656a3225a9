"""The study of NVIDIA's Triton under load: clients, delays, batching, two models.

    TRITON_PYTHON=~/triton/bin/python make study CHAPTERS=signals/inference_service STUDY=triton

An arm is a server's settings and what is asked of it; each repetition starts servers of its
own. Clients and servers share the machine, every answer is checked. The gain of batching is
that of a delay of 2 ms, as in the page, whichever delay turns out best.
"""

import json
import subprocess
from collections import namedtuple
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import torch
from calorimeter import clusters_of, collision, fit
from emmichel import export, load_network, save_onnx
from helpers import check
from helpers.study import Arm, Metric, Outcome, Part, Study, student
from lartpc import Detector, draw_primaries, simulate
from reconstruction import prepare
from sonic import Model, knee, load, mean_value, save_events

from .launch import EMMICHEL, HERE, Settings, Triton, engine, metrics, triton_python

CLIENTS, DELAYS_US, CROWD = (1, 2, 4, 8, 16), (0, 2000, 10_000), 4
REST_S = 0.5  # between a client's events, on average
PARTS = (0.5, 0.75, 1.0, 1.25, 1.5, 2.0)  # of N*: so many clients come
INFER, ROWS = "nv_inference_compute_infer_duration_us", "nv_inference_count"
BATCHES, DONE = "nv_inference_exec_count", "nv_inference_request_success"
GRID = ("patches_per_s", "median_ms", "p95_ms", "mean_batch", "busy_share")
WAITS = ("clients", "events_per_s", "median_ms", "busy_share")
JETS = Model("calibration", "features", (3,), {"factor": (1,)})


# Two models' files, each with one of rows and right answers, in a folder that goes with it
Scene = namedtuple("Scene", "folder model events second second_events")


def scene(network, patches, calibration, features):
    """The Scene of two networks and what they are asked, answered by themselves."""
    folder = TemporaryDirectory()
    first = save_onnx(network, Path(folder.name, "emmichel.onnx"))
    second = Path(folder.name, "calibration.onnx")
    export(calibration, torch.zeros(2, 3), second, JETS.input, *JETS.outputs)
    found = [folder]
    for path, model, rows in ((first, EMMICHEL, patches), (second, JETS, features)):
        with engine(Settings("local"), path, model) as infer:
            right = infer(rows)
        found += [path, save_events(path.with_suffix(".npz"), model, rows, right)]
    return Scene(*found)


def parts(seed, sizes):
    """The patches of one event and the clusters of 40 collisions, the same each time."""
    rng, place = np.random.default_rng(0), Detector()
    event = simulate(draw_primaries(place, rng, muons=3, stopping=3, showers=2), place, rng)
    patches = prepare(event)[2].numpy()
    jets = [collision(rng) for _ in range(40)]
    features = np.concatenate([clusters_of(one.cells)[0] for one in jets])
    known = scene(load_network(), patches, fit(jets, steps=120), features)
    return {"events": Part(known, range(len(patches)))}


def judge(made, told, job):
    """What the arm's load found with its server."""
    return job.arm.setting["load"](told, job)


def server(told, job, **more):
    """A Triton of the arm's settings."""
    return Triton({EMMICHEL.name: told.model}, **job.arm.setting.get("server", {}), **more)


def point(told, job, asked, rows, clients, address=None, seconds="seconds", **options):
    """(what `load` found, the server's metrics as they grew, the share of the time that its
    model was busy); all answers are right."""
    before = metrics(asked.metrics_address)
    address, seconds = address or asked.address, job.sizes[seconds]
    found = load([address], told.events, rows, clients, seconds, **options)
    check.that(found["wrong"] == found["lost"] == 0, f"wrong or lost events: {found}")
    now = metrics(asked.metrics_address)
    grown = {name: now[name] - before.get(name, 0) for name in now}
    each_s = grown[INFER] / 1e6 / grown[DONE]  # Triton counts a batch for each request in it
    busy = found["patches_per_s"] * grown[BATCHES] / grown[ROWS] * each_s
    return found, grown, min(busy, 1.0)  # a window's rate, a run's mean work


def grid(told, job):
    """Lists by clients, one patch in each request."""
    rows = []
    with server(told, job) as asked:
        point(told, job, asked, 1, 2)  # warm
        for clients in CLIENTS:
            found, grown, busy = point(told, job, asked, 1, clients)
            waits = [1000 * float(np.quantile(found["latency_s"], q)) for q in (0.5, 0.95)]
            batch = grown[ROWS] / max(1, grown[BATCHES])
            rows.append((found["patches_per_s"], *waits, batch, busy))
    lists = dict(zip(GRID, map(list, zip(*rows, strict=True)), strict=True))
    rates = dict(zip(CLIENTS, lists["patches_per_s"], strict=True))
    return lists | {f"rate_{clients}": rates[clients] for clients in (1, 8)}


def clients(told, job):
    """The knee, predicted from one client alone, and measured with up to twice N* of them:
    events of 64 patches, rests of half a second on average."""
    how, rows = {"rest_s": REST_S, "seconds": "long_seconds"}, []
    with server(told, job) as asked:
        point(told, job, asked, 64, 2)  # warm
        found, grown, _ = point(told, job, asked, 64, 1, **how)
        busy_s = 64 * grown[INFER] / 1e6 / grown[ROWS]
        event_s = REST_S + float(np.mean(found["latency_s"]))
        star = event_s / busy_s
        for count in [max(1, round(part * star)) for part in PARTS]:
            found, _, busy = point(told, job, asked, 64, count, **how)
            median_ms = 1000 * float(np.median(found["latency_s"]))
            rows.append((count, found["events_per_s"], median_ms, busy))
    lists = dict(zip(WAITS, map(list, zip(*rows, strict=True)), strict=True))
    most = 2 * round(star) + 2
    chance = mean_value(most, event_s - busy_s, busy_s)  # what is not the server's is a rest
    wanted = knee(range(1, most + 1), chance, 1 / event_s)
    measured = knee(lists["clients"], lists["events_per_s"], 1 / event_s)
    check.that(np.isfinite(measured), f"no knee up to {lists['clients'][-1]} clients")
    found = {"predicted": star, "predicted_knee": wanted, "knee": measured}
    return lists | found | {"knee_by_prediction": measured / wanted}


def batched(told, job):
    """Requests of 64 patches from four clients, or what the arm asks: how they are joined."""
    ask = {"rows": 64, "clients": CROWD} | job.arm.setting.get("ask", {})
    with server(told, job) as asked:
        found, grown, _ = point(told, job, asked, **ask)
    return {"mean_batch": grown[ROWS] / grown[BATCHES], "rate": found["patches_per_s"]}


def two_models(told, job):
    """Two models of one server, asked at once by two clients each: all answers are right."""
    models = {EMMICHEL.name: told.model, JETS.name: told.second}
    with Triton(models) as asked, ThreadPoolExecutor(1) as pool:
        how = 64, 2, job.sizes["seconds"]
        other = pool.submit(load, [asked.address], told.second_events, *how)
        found, *_ = point(told, job, asked, 64, 2)
        second = other.result()
    check.that(second["wrong"] == second["lost"] == 0 < second["events"], f"{second}")
    return {"rate": found["patches_per_s"], "clusters": second["patches_per_s"]}


def peers(told, job):
    """NVIDIA's clients beside ours, and no client at all, for blocks of 256 and of one."""
    rows = []
    with server(told, job) as asked:
        for size in (256, 1):
            ask = {"ports": asked.ports, "events": str(told.events), "rows": size}
            ask |= {"model_file": str(told.model)}
            command = [triton_python(), str(HERE / "triton_clients.py"), json.dumps(ask)]
            ran = subprocess.run(command, capture_output=True, text=True, timeout=120)
            check.that(ran.returncode == 0, ran.stderr[-600:])
            times = json.loads(ran.stdout)
            rows.append({f"{name}_ms": float(np.median(one)) for name, one in times.items()})
            rows[-1] = {"block": size} | rows[-1]
    return {name: [row[name] for row in rows] for name in rows[0]}


def arm(what, ask=None, **options):
    """An arm whose server, of these options, is asked by `what(scene, job)`."""
    setting = {"load": what, "server": options} | ({"ask": ask} if ask else {})
    return Arm(start="triton", setting=setting, test=("events",))


SIZED = {"max_batch": 256, "delay_us": 20_000}
MANY = {"rows": 32, "clients": 2, "batch": 1, "in_flight": 32}  # single patches, 64 under way
ARMS = {"no_batching": arm(grid, max_batch=256, no_batching=True)}
ARMS |= {f"delay_{us}": arm(grid, max_batch=256, delay_us=us) for us in DELAYS_US}
ARMS |= {"clients": arm(clients, no_batching=True), "peers": arm(peers, delay_us=0)}
ARMS |= {f"preferred_{n}": arm(batched, **SIZED, preferred=(n,)) for n in (64, 128)}
ARMS |= {"preferred_none": arm(batched, **SIZED), "two_models": arm(two_models)}
ARMS |= {"two_instances": arm(batched, **SIZED, instances=2)}
ARMS |= {"in_flight": arm(batched, MANY, delay_us=2000)}


def drawn(receipt, found):
    """Record the curves, means over the repetitions, and the knee."""

    def each(name, key):
        return [one["events"][key] for one in found[name].values()]

    def mean(name, key):
        return np.mean(each(name, key), 0).tolist()

    delays = {"no_batching": -1} | {f"delay_{us}": us for us in DELAYS_US}
    columns = {key: sum((mean(name, key) for name in delays), []) for key in GRID}
    at = {"clients": [*CLIENTS] * len(delays)}
    at["delay_us"] = [us for us in delays.values() for _ in CLIENTS]
    receipt.curve("grid", **at, **columns)
    ends = [student(list(one)) for one in zip(*each("clients", "events_per_s"), strict=True)]
    low, high = ([end[i] for end in ends] for i in (1, 2))
    waits = {key: mean("clients", key) for key in WAITS}
    receipt.curve("clients", part=PARTS, **waits, low=low, high=high)
    names = next(iter(found["peers"].values()))["events"]
    receipt.curve("peers", **{name: mean("peers", name) for name in names})


SERVER = ("setting.server.delay_us", "setting.server.no_batching")
GAINS = {"study_batching_gain": "rate_8", "study_batching_gain_alone": "rate_1"}
METRICS = {rate: Metric("patches/s") for rate in ("rate", "rate_1", "rate_8")}
METRICS |= {name: Metric("clients") for name in ("predicted", "predicted_knee", "knee")}
METRICS |= {"mean_batch": Metric("patches"), "clusters": Metric("clusters/s")}
METRICS |= {"knee_by_prediction": Metric("×")}
HOW = {"notebook": "inference_service", "parts": parts, "judge": judge, "seeds": range(5)}
HOW |= {"key": "{arm}_{metric}", "over": "repetitions", "threads": 2}
STUDY = Study(
    name="triton",
    arms=ARMS,
    sizes={"seconds": 3, "long_seconds": 25},
    trial={"seconds": 0.5, "long_seconds": 1},
    metrics=METRICS,
    outcomes={
        name: Outcome(rate, "delay_2000", "no_batching", SERVER, ratio=True)
        for name, rate in GAINS.items()
    },
    extra=drawn,
    **HOW,
)
