"""The study of NVIDIA's Triton under load: clients, delays, batching, a killed server, a slow
link.

    TRITON_PYTHON=~/triton/bin/python python -m service.study_service    # from the slice

Minutes, on an otherwise idle machine; `--parts` picks some. Clients and servers share the
machine, every answer is checked. Where haproxy or Prometheus are installed, they take their
part: one balances two servers, one reads the metrics.
"""

import argparse
import contextlib
import json
import shutil
import socket
import subprocess
import tempfile
import threading
import time
import urllib.parse
import urllib.request
from pathlib import Path

import numpy as np
from emmichel import load_network, save_onnx
from helpers import check, device, receipts
from lartpc import Detector, draw_primaries, simulate
from reconstruction import prepare
from sonic import Fault, crossing, load, save_events

from .launch import EMMICHEL, HERE, Settings, Triton, engine, metrics, triton_python

CLIENTS, DELAYS_US = (1, 2, 4, 8, 16), (0, 2000, 10_000)
INFER, ROWS = "nv_inference_compute_infer_duration_us", "nv_inference_count"
BATCHES, QUEUED = "nv_inference_exec_count", "nv_inference_pending_request_count"


class Study:
    """What the parts share: the model's file, events to send, seconds a point, a receipt."""

    def __init__(self, folder, receipt, seconds):
        rng, place = np.random.default_rng(0), Detector()
        event = simulate(draw_primaries(place, rng, muons=3, stopping=3, showers=2), place, rng)
        patches = prepare(event)[2].numpy()
        self.folder, self.receipt, self.seconds = Path(folder), receipt, seconds
        self.path = save_onnx(load_network(), self.folder / "emmichel.onnx")
        with engine(Settings("local"), self.path) as infer:
            right = infer(patches)
        self.events = save_events(self.folder / "events.npz", EMMICHEL, patches, right)

    def server(self, **options):
        """A Triton."""
        return Triton({EMMICHEL.name: self.path}, **options)

    def point(self, server, rows, clients, address=None, **options):
        """(what `load` found, how much the server's metrics grew); all answers are right."""
        before = metrics(server.metrics_address)
        address = address or server.address
        found = load([address], self.events, rows, clients, self.seconds, **options)
        check.that(found["wrong"] == found["lost"] == 0, f"wrong or lost events: {found}")
        now = metrics(server.metrics_address)
        return found, {name: now[name] - before.get(name, 0) for name in now}

    def table(self, name, columns, rows):
        """None; a curve of the receipt."""
        print(name, *rows, sep="\n", flush=True)
        self.receipt.curve(name, **dict(zip(columns, zip(*rows, strict=True), strict=True)))


def grid(study):
    """Clients × delay, one patch in each request, and no batching (delay -1)."""
    rows = []
    for delay_us in (-1, *DELAYS_US):
        options = {"no_batching": True} if delay_us < 0 else {"delay_us": delay_us}
        with study.server(max_batch=256, **options) as server:
            study.point(server, 1, 2)  # warm
            for clients in CLIENTS:
                found, grown = study.point(server, 1, clients)
                waits = [1000 * float(np.quantile(found["latency_s"], q)) for q in (0.5, 0.95)]
                batch = grown[ROWS] / max(1, grown[BATCHES])
                rows.append((clients, delay_us, found["patches_per_s"], *waits, batch))
    names = ("clients", "delay_us", "patches_per_s", "median_ms", "p95_ms", "mean_batch")
    study.table("grid", names, rows)
    rate = {row[:2]: row[2] for row in rows}
    for metric, clients in (("study_batching_gain", 8), ("study_batching_gain_alone", 1)):
        gain = max(rate[clients, d] for d in DELAYS_US) / rate[clients, -1]
        study.receipt.record(metric, gain, "×", note=f"clients: {clients}; the best delay")


def clients(study, rest_s=0.5):
    """N* beside where the measured lines cross: events of 64 patches, a rest of half a second.

    The busy time is the server's own at each point: clients that take its cores slow it down.
    """
    rows = []
    with study.server(no_batching=True) as server:
        for count in CLIENTS:
            found, grown = study.point(server, 64, count, rest_s=rest_s)
            wait_ms, busy_ms = 1000 * np.median(found["latency_s"]), grown[INFER] / 1000
            rows.append(
                (count, found["events_per_s"], float(wait_ms), 64 * busy_ms / grown[ROWS])
            )
    study.table("clients", ("clients", "events_per_s", "median_ms", "busy_ms"), rows)
    _, rates, wait_ms, busy_ms = zip(*rows, strict=True)
    predicted = (1000 * rest_s + wait_ms[0]) / busy_ms[0]
    study.receipt.record("study_predicted_clients", predicted, "clients")
    study.receipt.record("study_crossing_clients", crossing(CLIENTS, rates), "clients")


def preferred(study):
    """Requests of 64 patches, four clients: nothing preferred, 64, and 128; two instances."""
    settings = {f"preferred_{n}": {"preferred": [n]} for n in (64, 128)}
    settings |= {"preferred_none": {}, "two_instances": {"instances": 2}}
    for name, options in settings.items():
        with study.server(max_batch=256, delay_us=20_000, **options) as server:
            found, grown = study.point(server, 64, 4)
        batch = grown[ROWS] / grown[BATCHES]
        study.receipt.record(f"{name}_mean_batch", batch, "patches")
        study.receipt.record(f"{name}_rate", found["patches_per_s"], "patches/s")


def killed(study):
    """Two servers, one killed and started again under load: no event lost, none counted
    twice.
    """
    with contextlib.ExitStack() as stack:
        first = stack.enter_context(study.server())
        second = stack.enter_context(study.server())  # in turn: two at once hinder each other
        addresses = [first.address, second.address]
        if shutil.which("haproxy"):
            addresses = [stack.enter_context(balanced(addresses, study.folder))]

        def strike():
            time.sleep(3 + study.seconds / 2)
            first.kill()
            stack.enter_context(study.server(port=first.ports["http"]))

        striker = threading.Thread(target=strike)
        striker.start()
        try:
            found = load(addresses, study.events, 64, 4, 6 * study.seconds, rest_s=0.05)
        finally:
            striker.join()  # what it starts has to end with the stack
    check.that(found["lost"] == found["wrong"] == 0, f"an event was lost: {found}")
    study.receipt.record("killed_events", found["answered"], "events")
    study.receipt.record("killed_retries", found["retries"], "tries")
    study.receipt.record("killed_longest_wait", found["latency_s"][-1], "s")


def throttled(study, bytes_per_s=20e6):
    """Bytes for each event, predicted and counted, and events by a link of 20 MB/s."""
    with study.server() as server, Fault(server.address, bytes_per_s=bytes_per_s) as link:
        found, _ = study.point(server, 256, 2, address=link.address)
    each = found["bytes"] / found["answered"]
    study.receipt.record("bytes_per_patch", each / 256, "B")
    study.receipt.record("throttled_events_predicted", bytes_per_s / each, "events/s")
    study.receipt.record("throttled_events", found["events_per_s"], "events/s")


def peers(study):
    """NVIDIA's clients beside ours, by `triton_clients.py`, for blocks of 256 and of one."""
    rows = []
    with study.server(delay_us=0) as server:
        for size in (256, 1):
            told = {"ports": server.ports, "events": str(study.events), "rows": size}
            command = [triton_python(), str(HERE / "triton_clients.py"), json.dumps(told)]
            ran = subprocess.run(command, capture_output=True, text=True, timeout=120)
            check.that(ran.returncode == 0, ran.stderr[-600:])
            times = json.loads(ran.stdout)
            rows.append((size, *(float(np.median(one)) for one in times.values())))
    study.table("peers", ("block", *(f"{name}_ms" for name in times)), rows)


def scraped(study):
    """What Prometheus reads of the server's counts, times and queue; its own sum of rows."""
    if not shutil.which("prometheus"):
        return print("Prometheus is not installed: left out")
    with study.server() as server:
        told = {"job_name": "triton", "static_configs": [{"targets": [server.metrics_address]}]}
        config = {"global": {"scrape_interval": "1s"}, "scrape_configs": [told]}
        file, at = study.folder / "prometheus.yml", f"127.0.0.1:{free_port()}"
        file.write_text(json.dumps(config))  # JSON is YAML
        flags = [f"--config.file={file}", f"--storage.tsdb.path={study.folder}/tsdb"]
        with running(["prometheus", *flags, f"--web.listen-address={at}"]):
            study.point(server, 8, 2)
            own, read = metrics(server.metrics_address)[ROWS], {}
            query = urllib.parse.quote(f'{{model="{EMMICHEL.name}"}}')
            until = time.monotonic() + 30
            while read.get(ROWS) != own:  # it looks for what to scrape every five seconds
                check.that(time.monotonic() < until, f"Prometheus read {read}, {own} is right")
                time.sleep(0.5)
                with urllib.request.urlopen(f"http://{at}/api/v1/query?query={query}") as found:
                    series = json.load(found)["data"]["result"]
                read = {one["metric"]["__name__"]: float(one["value"][1]) for one in series}
    check.that({ROWS, INFER, QUEUED} <= set(read), f"counts, times, queue: {sorted(read)}")
    study.receipt.record("prometheus_rows", own, "patches")


HAPROXY = """defaults
 mode http
 timeout connect 1s
 timeout client 60s
 timeout server 5s
 retries 3
 option redispatch
 retry-on all-retryable-errors
frontend in
 bind {at}
 default_backend servers
backend servers
 balance leastconn
 option httpchk GET {ready}
"""


@contextlib.contextmanager
def balanced(addresses, folder):
    """The address of a haproxy in front of servers; it asks for the model, and tries another.

    A server says that it is ready before its models are, and answers 404 for them until then.
    """
    file, at = folder / "haproxy.cfg", f"127.0.0.1:{free_port()}"
    text = HAPROXY.format(at=at, ready=f"/v2/models/{EMMICHEL.name}/ready")
    watched = "check inter 500ms fall 1 observe layer4 error-limit 1 on-error mark-down"
    lines = [f" server s{i} {one} {watched}" for i, one in enumerate(addresses)]
    file.write_text("\n".join([text.rstrip(), *lines, ""]))
    with running(["haproxy", "-f", str(file), "-db"]):
        time.sleep(2)
        yield at


@contextlib.contextmanager
def running(command):
    """A program that runs meanwhile."""
    with subprocess.Popen(command, stderr=subprocess.DEVNULL) as process:
        try:
            yield process
        finally:
            process.terminate()


def free_port():
    """A port that nobody uses now."""
    with socket.create_server(("127.0.0.1", 0)) as held:
        return held.getsockname()[1]


PARTS = (grid, clients, peers, preferred, killed, throttled, scraped)
PARTS = {part.__name__: part for part in PARTS}


def main(argv=None):
    """All parts, and the receipt after each; a part that fails is told, the others count."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--parts", nargs="*", choices=PARTS, default=list(PARTS))
    parser.add_argument("--seconds", type=float, default=3, help="of load for each point")
    o = parser.parse_args(argv)
    receipt = receipts.start("inference_service", device.tier("auto"))
    receipt.sizes(seconds=o.seconds)
    failed = []
    with tempfile.TemporaryDirectory() as folder:
        study = Study(folder, receipt, o.seconds)
        for name in o.parts:
            began = time.perf_counter()
            try:
                PARTS[name](study)
            except Exception as error:
                failed.append(name)
                print(f"{name} failed: {type(error).__name__}: {str(error)[-400:]}", flush=True)
            print(f"{name}: {time.perf_counter() - began:.0f} s", flush=True)
            receipt.record("failed_parts", len(failed), "parts", note=", ".join(failed) or None)
            path = receipt.write("triton")
    print(path)


if __name__ == "__main__":
    main()
