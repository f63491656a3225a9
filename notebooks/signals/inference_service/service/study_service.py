"""The study of a server under load: clients, delays, batching, a killed server, a slow link.

    TRITON_PYTHON=~/triton/bin/python python -m service.study_service    # from the slice

Ten minutes with NVIDIA's Triton; without TRITON_PYTHON it studies the embedded server, and the
receipt says so. `--parts` picks some; a part that fails is told, the others count. Clients and
servers share the machine, every answer is checked. Where haproxy or Prometheus are installed,
they take their part: one balances two servers, one reads the metrics.
"""

import argparse
import contextlib
import json
import shutil
import subprocess
import tempfile
import threading
import time
import urllib.request
from pathlib import Path

import numpy as np
from emmichel import load_network, save_onnx
from helpers import check, device, receipts
from reconstruction import prepare
from sonic import Fault, knee, load, save_events

from .launch import EMMICHEL, PINS, Process, Settings, engine, free_port, metrics, triton_python

CLIENTS, DELAYS_US = (1, 2, 4, 8, 16, 32), (0, 500, 2000, 10_000)


class Study:
    """What the parts share: the model's file, events to send, seconds for each point, a
    receipt.
    """

    def __init__(self, folder, receipt, seconds, triton):
        from lartpc import Detector, draw_primaries, simulate

        rng, place = np.random.default_rng(0), Detector()
        event = simulate(draw_primaries(place, rng, muons=3, stopping=3, showers=2), place, rng)
        patches = prepare(event)[2].numpy()
        self.path = save_onnx(load_network(), Path(folder) / "emmichel.onnx")
        self.folder, self.receipt, self.seconds = Path(folder), receipt, seconds
        self.triton, self.files = triton, {}
        with engine(Settings("local"), self.path) as infer:
            for rows in (1, 8, 64, 256):
                sent = patches[rng.permutation(len(patches))[:rows]]
                file = self.folder / f"events_{rows}.npz"
                self.files[rows] = save_events(file, EMMICHEL, sent, infer(sent))

    def server(self, **options):
        """A server process of the kind that is studied."""
        return Process({EMMICHEL.name: self.path}, self.triton, **options)

    def point(self, addresses, rows, clients, **options):
        """What `load` found, all answers right."""
        found = load(addresses, self.files[rows], clients, self.seconds, **options)
        check.that(found["wrong"] == found["lost"] == 0, f"wrong or lost events: {found}")
        return found


def grid(study):
    """Clients × delay, one patch in each request, and no batching: rates, waits, mean
    batches.
    """
    rows = []
    for delay_us in (None, *DELAYS_US):
        options = {"no_batching": True} if delay_us is None else {"delay_us": delay_us}
        with study.server(max_batch=256, **options) as server:
            for clients in CLIENTS:
                before = metrics(server.metrics_address)
                found = study.point([server.address], 1, clients)
                grown = _grown(before, metrics(server.metrics_address))
                waits = [1000 * np.quantile(found["latency_s"], q) for q in (0.5, 0.95)]
                batch = grown["nv_inference_count"] / max(1, grown["nv_inference_exec_count"])
                delay = -1 if delay_us is None else delay_us
                rows.append((clients, delay, found["patches_per_s"], *waits, batch))
                print(rows[-1], flush=True)
    names = ("clients", "delay_us", "patches_per_s", "median_ms", "p95_ms", "mean_batch")
    study.receipt.curve("grid", **dict(zip(names, zip(*rows, strict=True), strict=True)))
    best = {d: {r[0]: r[2] for r in rows if r[1] == d} for d in (-1, *DELAYS_US)}
    gain = max(best[d][8] for d in DELAYS_US) / best[-1][8]
    study.receipt.record("study_batching_gain", gain, "×", note="eight clients, the best delay")
    study.receipt.record("study_batching_gain_alone", best[2000][1] / best[-1][1], "×")


def clients(study, rest_s=0.5):
    """The knee with events of 64 patches and a rest of half a second, beside N*."""
    rates = []
    with study.server(delay_us=0) as server:
        for count in CLIENTS:
            before = metrics(server.metrics_address)
            found = study.point([server.address], 64, count, rest_s=rest_s)
            grown = _grown(before, metrics(server.metrics_address))
            rates.append(found["events_per_s"])
            if count == 1:
                busy_s = grown["nv_inference_compute_infer_duration_us"] / 1e6 / found["events"]
                predicted = (rest_s + np.median(found["latency_s"])) / busy_s
    study.receipt.curve("knee", clients=list(CLIENTS), events_per_s=rates)
    study.receipt.record("study_predicted_clients", predicted, "clients")
    study.receipt.record("study_knee_clients", knee(CLIENTS, rates), "clients")


def preferred(study):
    """Requests of 64 patches, four clients: nothing preferred, 64, and 128; mean batch,
    rate.
    """
    for sizes in ([], [64], [128]):
        with study.server(max_batch=256, delay_us=20_000, preferred=sizes) as server:
            before = metrics(server.metrics_address)
            found = study.point([server.address], 64, 4, in_flight=2)
            grown = _grown(before, metrics(server.metrics_address))
        name = f"preferred_{'_'.join(map(str, sizes)) or 'none'}"
        batch = grown["nv_inference_count"] / grown["nv_inference_exec_count"]
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
            time.sleep(3 + study.seconds / 3)
            first.kill()
            with contextlib.suppress(RuntimeError):
                stack.enter_context(study.server(port=first.ports["http"]))

        striker = threading.Thread(target=strike)
        striker.start()
        try:
            found = load(addresses, study.files[64], 4, study.seconds, rest_s=0.05)
        finally:
            striker.join()  # what it starts has to end with the stack
    check.that(found["lost"] == found["wrong"] == 0, f"an event was lost: {found}")
    check.that(found["events"] == len(found["latency_s"]), "an event was counted twice")
    study.receipt.record("killed_events", found["events"], "events")
    study.receipt.record("killed_retries", found["retries"], "tries")
    study.receipt.record("killed_longest_wait", found["latency_s"][-1], "s")


def throttled(study, bytes_per_s=20e6):
    """Bytes for each event, predicted and counted, and events by a link of 20 MB/s."""
    with study.server() as server, Fault(server.address, bytes_per_s=bytes_per_s) as link:
        found = study.point([link.address], 256, 2)
    each = found["bytes"] / found["events"]
    study.receipt.record("bytes_per_patch", each / 256, "B")
    study.receipt.record("throttled_events_predicted", bytes_per_s / each, "events/s")
    study.receipt.record("throttled_events", found["events_per_s"], "events/s")


def scraped(study):
    """Prometheus's own sum of what the server computed, beside the server's."""
    if not shutil.which("prometheus"):
        print("Prometheus is not installed: left out")
        return
    port = free_port()
    with study.server() as server:
        told = {"job_name": "triton", "static_configs": [{"targets": [server.metrics_address]}]}
        config = {"global": {"scrape_interval": "1s"}, "scrape_configs": [told]}
        file = study.folder / "prometheus.yml"
        file.write_text(json.dumps(config))  # JSON is YAML
        flags = [f"--config.file={file}", f"--storage.tsdb.path={study.folder}/tsdb"]
        flags += [f"--web.listen-address=127.0.0.1:{port}"]
        running = subprocess.Popen(["prometheus", *flags], stderr=subprocess.DEVNULL)
        try:
            study.point([server.address], 8, 2)
            time.sleep(3)
            query = f"http://127.0.0.1:{port}/api/v1/query?query=nv_inference_count"
            with urllib.request.urlopen(query, timeout=10) as answer:
                read = json.load(answer)["data"]["result"]
            own = metrics(server.metrics_address)["nv_inference_count", EMMICHEL.name]
        finally:
            running.terminate()
            running.wait()
    check.that(float(read[0]["value"][1]) == own, "Prometheus must read what the server tells")
    study.receipt.record("prometheus_rows", own, "patches")


@contextlib.contextmanager
def balanced(addresses, folder):
    """The address of a haproxy in front of servers; it asks for the model, and tries another.

    A server says that it is ready before its models are, and answers 404 for them until then.
    """
    ready = f"/v2/models/{EMMICHEL.name}/ready"
    port = free_port()
    lines = ["defaults", " mode http", " timeout connect 1s", " timeout client 60s"]
    lines += [
        " timeout server 5s",
        " retries 3",
        " option redispatch",
        " retry-on all-retryable-errors",
    ]
    lines += ["frontend in", f" bind 127.0.0.1:{port}", " default_backend servers"]
    lines += ["backend servers", " balance leastconn", f" option httpchk GET {ready}"]
    watched = "check inter 500ms fall 1 observe layer4 error-limit 1 on-error mark-down"
    lines += [f" server s{i} {one} {watched}" for i, one in enumerate(addresses)]
    file = folder / "haproxy.cfg"
    file.write_text("\n".join([*lines, ""]))
    running = subprocess.Popen(["haproxy", "-f", str(file), "-db"], stderr=subprocess.DEVNULL)
    time.sleep(2)
    try:
        yield f"127.0.0.1:{port}"
    finally:
        running.terminate()
        running.wait()


def _grown(before, now):
    """{name: how much it grew} of the network's metrics."""
    return {k[0]: now[k] - before.get(k, 0) for k in now if k[1] == EMMICHEL.name}


PARTS = {f.__name__: f for f in (grid, clients, preferred, killed, throttled, scraped)}


def main(argv=None):
    """All parts, and the receipt after each."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--parts", nargs="*", choices=PARTS, default=list(PARTS))
    parser.add_argument("--seconds", type=float, default=6, help="of load for each point")
    o, triton = parser.parse_args(argv), bool(triton_python())
    receipt = receipts.start("inference_service", device.tier("auto"))
    receipt.sizes(seconds=o.seconds, triton=int(triton))
    print(f"studying {'Triton: ' + PINS if triton else 'the embedded server'}", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        study, failed = Study(folder, receipt, o.seconds, triton), []
        for name in o.parts:
            began = time.perf_counter()
            try:
                PARTS[name](study)
            except Exception as error:
                failed.append(name)
                print(f"{name} failed: {type(error).__name__}: {str(error)[-400:]}", flush=True)
            print(f"{name}: {time.perf_counter() - began:.0f} s", flush=True)
            receipt.record("failed_parts", len(failed), "parts", note=", ".join(failed) or None)
            path = receipt.write("service_triton" if triton else "service_embedded")
    print(path)


if __name__ == "__main__":
    main()
