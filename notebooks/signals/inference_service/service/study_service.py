"""The study of NVIDIA's Triton under load: clients, delays, batching, a killed server, a slow
link.

    TRITON_PYTHON=~/triton/bin/python make study CHAPTERS=signals/inference_service STUDY=triton

An arm is a server's settings and what is asked of it; each repetition starts servers of its
own. Clients and servers share the machine, every answer is checked. Where haproxy or Prometheus
are installed, they take their part: one balances two servers, one reads the metrics. The gain
of batching is that of a delay of 2 ms, as in the page, whichever delay turns out best.
"""

import contextlib
import json
import shutil
import subprocess
import time
import urllib.parse
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

import numpy as np
from emmichel import load_network, save_onnx
from helpers import check
from helpers.study import Arm, Metric, Outcome, Part, Study, student
from lartpc import Detector, draw_primaries, simulate
from reconstruction import prepare
from sonic import Fault, crossing, load, pack, save_events

from .launch import EMMICHEL, HERE, Settings, Triton, engine, metrics, triton_python
from .programs import balanced, free_port, running

CLIENTS, DELAYS_US, CROWD = (1, 2, 4, 8, 16), (0, 2000, 10_000), 4
REST_S, LINK = 0.5, 20e6  # between a client's events; bytes a second
INFER, ROWS = "nv_inference_compute_infer_duration_us", "nv_inference_count"
BATCHES, QUEUED = "nv_inference_exec_count", "nv_inference_pending_request_count"
GRID = ("patches_per_s", "median_ms", "p95_ms", "mean_batch")
WAITS = ("events_per_s", "median_ms", "busy_ms")


class Scene(NamedTuple):
    """A model's file, and one of patches with their right answers, in a folder that goes when
    nobody holds it."""

    folder: TemporaryDirectory
    model: Path
    events: Path


def scene(network, patches):
    """The Scene of a network and patches (N, 48, 48), answered by the network itself."""
    folder = TemporaryDirectory()
    path = save_onnx(network, Path(folder.name, "emmichel.onnx"))
    with engine(Settings("local"), path) as infer:
        right = infer(patches)
    return Scene(
        folder, path, save_events(path.with_name("events.npz"), EMMICHEL, patches, right)
    )


def parts(seed, sizes):
    """The patches of one event, the same for all repetitions; nobody learns from them."""
    rng, place = np.random.default_rng(0), Detector()
    event = simulate(draw_primaries(place, rng, muons=3, stopping=3, showers=2), place, rng)
    patches = prepare(event)[2].numpy()
    return {"events": Part(scene(load_network(), patches), range(len(patches)))}


def judge(made, told, job):
    """What the arm's load found with its server."""
    return job.arm.setting["load"](told, job)


def server(told, job, **more):
    """A Triton of the arm's settings."""
    return Triton({EMMICHEL.name: told.model}, **job.arm.setting.get("server", {}), **more)


def point(told, job, asked, rows, clients, address=None, **options):
    """(what `load` found, how much the server's metrics grew); all answers are right."""
    before = metrics(asked.metrics_address)
    address, seconds = address or asked.address, job.sizes["seconds"]
    found = load([address], told.events, rows, clients, seconds, **options)
    check.that(found["wrong"] == found["lost"] == 0, f"wrong or lost events: {found}")
    now = metrics(asked.metrics_address)
    return found, {name: now[name] - before.get(name, 0) for name in now}


def grid(told, job):
    """Lists by clients, one patch in each request."""
    rows = []
    with server(told, job) as asked:
        point(told, job, asked, 1, 2)  # warm
        for clients in CLIENTS:
            found, grown = point(told, job, asked, 1, clients)
            waits = [1000 * float(np.quantile(found["latency_s"], q)) for q in (0.5, 0.95)]
            batch = grown[ROWS] / max(1, grown[BATCHES])
            rows.append((found["patches_per_s"], *waits, batch))
    lists = dict(zip(GRID, map(list, zip(*rows, strict=True)), strict=True))
    rates = dict(zip(CLIENTS, lists["patches_per_s"], strict=True))
    return lists | {f"rate_{clients}": rates[clients] for clients in (1, 8)}


def clients(told, job):
    """N* beside where the measured lines cross: events of 64 patches, a rest of half a second.

    The busy time is the server's own at each point: clients that take its cores slow it down.
    """
    rows = []
    with server(told, job) as asked:
        for count in CLIENTS:
            found, grown = point(told, job, asked, 64, count, rest_s=REST_S)
            wait_ms, busy_ms = 1000 * float(np.median(found["latency_s"])), grown[INFER] / 1000
            rows.append((found["events_per_s"], wait_ms, 64 * busy_ms / grown[ROWS]))
    rates, wait_ms, busy_ms = map(list, zip(*rows, strict=True))
    predicted = (1000 * REST_S + wait_ms[0]) / busy_ms[0]
    meet = {"predicted": [predicted], "crossing": [crossing(CLIENTS, rates)]}
    return dict(zip(WAITS, (rates, wait_ms, busy_ms), strict=True)) | meet


def batched(told, job):
    """Requests of 64 patches from four clients: how they are joined, and how many are done."""
    with server(told, job) as asked:
        found, grown = point(told, job, asked, 64, CROWD)
    return {"mean_batch": grown[ROWS] / grown[BATCHES], "rate": found["patches_per_s"]}


def killed(told, job):
    """Two servers, one killed and started again under load: no event is lost, none is counted
    that no server computed, and each of the three computed some.
    """
    seconds = job.sizes["seconds"]
    with contextlib.ExitStack() as stack:
        first, second = (stack.enter_context(server(told, job)) for _ in range(2))  # in turn
        addresses = [first.address, second.address]
        if haproxy := bool(shutil.which("haproxy")):
            addresses = [stack.enter_context(balanced(addresses, Path(told.folder.name)))]

        def strike():
            time.sleep(3 + seconds / 2)
            computed = metrics(first.metrics_address).get(ROWS, 0)
            first.kill()
            until = time.monotonic() + 10  # its processes may need a moment to end
            with contextlib.suppress(OSError):
                while metrics(first.metrics_address) is not None:
                    check.that(time.monotonic() < until, "the killed server answers")
                    time.sleep(0.05)
            return computed, stack.enter_context(server(told, job, port=first.ports["http"]))

        with ThreadPoolExecutor(1) as pool:  # what it starts has to end with the stack
            struck = pool.submit(strike)
            found = load(addresses, told.events, 64, CROWD, 6 * seconds, rest_s=0.05)
            before, again = struck.result()  # or what went wrong in it
        check.that(again.address == first.address, f"it came back elsewhere: {again.address}")
        rows = [before, *(metrics(x.metrics_address).get(ROWS, 0) for x in (second, again))]
    check.that(found["lost"] == found["wrong"] == 0, f"an event was lost: {found}")
    check.that(min(rows) > 0, f"killed, other and restarted server computed {rows} patches")
    most = sum(rows) / 64 + CROWD  # that many were on their way when it was killed
    check.that(found["answered"] <= most, f"{found['answered']} events, {most:g} computed")
    waited = {"retries": found["retries"], "longest_wait": found["latency_s"][-1]}
    return {"events": found["answered"], **waited, "balancers": int(haproxy)}


def throttled(told, job):
    """Events by a link of 20 MB/s, and how many its bytes allow: predicted from the shapes of a
    request and its answer, before any is sent; the bytes that were counted are the same.
    """
    rows = 256
    sent = {EMMICHEL.input: np.zeros((rows, *EMMICHEL.row), np.float32)}
    got = {name: np.zeros((rows, *one), np.float32) for name, one in EMMICHEL.outputs.items()}
    each = len(pack(sent, "inputs")[0]) + len(pack(got, "outputs")[0])
    with server(told, job) as asked, Fault(asked.address, bytes_per_s=LINK) as link:
        found, _ = point(told, job, asked, rows, 2, address=link.address)
    counted = found["bytes"] / found["answered"]
    check.that(abs(counted / each - 1) < 0.01, f"{counted:g} bytes came, {each} were predicted")
    return {"events_predicted": LINK / each, "done": [found["events_per_s"]]}


def peers(told, job):
    """NVIDIA's clients beside ours, by `triton_clients.py`, for blocks of 256 and of one."""
    rows = []
    with server(told, job) as asked:
        for size in (256, 1):
            ask = {"ports": asked.ports, "events": str(told.events), "rows": size}
            command = [triton_python(), str(HERE / "triton_clients.py"), json.dumps(ask)]
            ran = subprocess.run(command, capture_output=True, text=True, timeout=120)
            check.that(ran.returncode == 0, ran.stderr[-600:])
            times = json.loads(ran.stdout)
            rows.append({f"{name}_ms": float(np.median(one)) for name, one in times.items()})
            rows[-1] = {"block": size} | rows[-1]
    return {name: [row[name] for row in rows] for name in rows[0]}


def scraped(told, job):
    """What Prometheus reads of the server's counts, times and queue; its own sum of rows."""
    if not shutil.which("prometheus"):
        return {}
    folder = told.folder.name
    with server(told, job) as asked:
        targets = [asked.metrics_address]
        config = {"job_name": "triton", "static_configs": [{"targets": targets}]}
        config = {"global": {"scrape_interval": "1s"}, "scrape_configs": [config]}
        file, at = Path(folder, "prometheus.yml"), f"127.0.0.1:{free_port()}"
        file.write_text(json.dumps(config))  # JSON is YAML
        flags = [f"--config.file={file}", f"--storage.tsdb.path={folder}/tsdb"]
        with running(["prometheus", *flags, f"--web.listen-address={at}"]):
            point(told, job, asked, 8, 2)
            own, read = metrics(asked.metrics_address)[ROWS], {}
            query = urllib.parse.quote(f'{{model="{EMMICHEL.name}"}}')
            until = time.monotonic() + 30
            while read.get(ROWS) != own:  # it looks for what to scrape every five seconds
                check.that(time.monotonic() < until, f"Prometheus read {read}, {own} is right")
                time.sleep(0.5)
                with urllib.request.urlopen(f"http://{at}/api/v1/query?query={query}") as found:
                    series = json.load(found)["data"]["result"]
                read = {one["metric"]["__name__"]: float(one["value"][1]) for one in series}
    check.that({ROWS, INFER, QUEUED} <= set(read), f"counts, times, queue: {sorted(read)}")
    return {"rows": own}


def arm(what, **options):
    """An arm whose server, of these options, is asked by `what(scene, job)`."""
    return Arm(start="triton", setting={"load": what, "server": options}, test=("events",))


ARMS = {"no_batching": arm(grid, max_batch=256, no_batching=True)}
ARMS |= {f"delay_{us}": arm(grid, max_batch=256, delay_us=us) for us in DELAYS_US}
ARMS |= {"clients": arm(clients, no_batching=True), "peers": arm(peers, delay_us=0)}
SIZED = {"max_batch": 256, "delay_us": 20_000}
ARMS |= {f"preferred_{n}": arm(batched, **SIZED, preferred=(n,)) for n in (64, 128)}
ARMS |= {"preferred_none": arm(batched, **SIZED)}
ARMS |= {"two_instances": arm(batched, **SIZED, instances=2), "killed": arm(killed)}
ARMS |= {"throttled": arm(throttled), "prometheus": arm(scraped)}

ALONE = {  # arm, key and unit of what no `key` has a word for
    "study_predicted_clients": ("clients", "predicted", "clients"),
    "study_crossing_clients": ("clients", "crossing", "clients"),
    "throttled_events": ("throttled", "done", "events/s"),
}


def drawn(receipt, found):
    """Record the curves, means over the repetitions, and where the lines of `clients` meet."""

    def mean(name, key):
        return np.mean([one["events"][key] for one in found[name].values()], 0).tolist()

    delays = {"no_batching": -1} | {f"delay_{us}": us for us in DELAYS_US}
    columns = {key: sum((mean(name, key) for name in delays), []) for key in GRID}
    at = {"clients": [*CLIENTS] * len(delays)}
    at["delay_us"] = [us for us in delays.values() for _ in CLIENTS]
    receipt.curve("grid", **at, **columns)
    receipt.curve("clients", clients=CLIENTS, **{key: mean("clients", key) for key in WAITS})
    names = next(iter(found["peers"].values()))["events"]
    receipt.curve("peers", **{name: mean("peers", name) for name in names})
    for label, (name, key, unit) in ALONE.items():
        own = [one["events"][key][0] for one in found[name].values()]
        value, low, high = student(own)
        note = "mean over repetitions, 95 % interval"
        receipt.record(label, value, unit, low, high, len(own), note, interval="95 %")


SERVER = ("setting.server.delay_us", "setting.server.no_batching")
STUDY = Study(
    notebook="inference_service",
    name="triton",
    arms=ARMS,
    seeds=range(5),
    sizes={"seconds": 3},
    trial={"seconds": 0.5},
    metrics={
        **dict.fromkeys(("rate", "rate_1", "rate_8"), Metric("patches/s")),
        **dict.fromkeys(("mean_batch", "rows"), Metric("patches")),
        "events": Metric("events"),
        "events_predicted": Metric("events/s"),
        "retries": Metric("tries"),
        "longest_wait": Metric("s"),
        "balancers": Metric("balancers"),
    },
    parts=parts,
    judge=judge,
    outcomes={
        f"study_batching_gain{end}": Outcome(
            rate, "delay_2000", "no_batching", SERVER, ratio=True
        )
        for end, rate in (("", "rate_8"), ("_alone", "rate_1"))
    },
    extra=drawn,
    key="{arm}_{metric}",
    over="repetitions",
    threads=2,
)
