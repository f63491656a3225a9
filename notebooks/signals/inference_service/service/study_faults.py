"""The study of Triton's faults: a server that is killed and started again under load, with and
without a balancer before it, and a slow link.

    TRITON_PYTHON=~/triton/bin/python make study CHAPTERS=signals/inference_service STUDY=faults

It needs haproxy (`apt-get install haproxy`), and ends without it.
"""

import contextlib
import shutil
import socket
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from helpers import check
from helpers.study import Metric, Study
from sonic import Fault, load, pack

from .launch import EMMICHEL, metrics
from .study_service import CROWD, HOW, ROWS, arm, point, server

LINK = 20e6  # bytes a second
HAPROXY = """defaults
 mode http
 timeout connect 1s
 timeout client 60s
 timeout server 5s
 retries 3
 option redispatch
 retry-on all-retryable-errors
listen servers
 bind {at}
 balance leastconn
 option httpchk GET /v2/models/{model}/ready
"""  # a server says that it is ready before its models are
WATCHED = "check inter 500ms fall 1 observe layer4 error-limit 1 on-error mark-down"


@contextlib.contextmanager
def haproxy(addresses):
    """The address, in a list, of a haproxy before servers; it tries another where one fails."""
    check.that(shutil.which("haproxy"), "this arm needs haproxy: apt-get install haproxy")
    with socket.create_server(("127.0.0.1", 0)) as held:
        at = f"127.0.0.1:{held.getsockname()[1]}"
    lines = [f" server s{i} {one} {WATCHED}" for i, one in enumerate(addresses)]
    with TemporaryDirectory() as folder:
        file = Path(folder, "haproxy.cfg")
        file.write_text("\n".join([HAPROXY.format(at=at, model=EMMICHEL.name), *lines, ""]))
        with subprocess.Popen(["haproxy", "-f", str(file), "-db"]) as process:
            try:
                time.sleep(2)
                yield [at]
            finally:
                process.terminate()


def killed(told, job):
    """Two servers behind the arm's front, one killed and started again under load: no event is
    lost, none counted that no server computed, and each of the three computed some."""
    front, seconds = job.arm.setting["ask"]["front"], job.sizes["seconds"]
    with contextlib.ExitStack() as stack:
        first, second = (stack.enter_context(server(told, job)) for _ in range(2))  # in turn
        addresses = stack.enter_context(front([first.address, second.address]))

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
    return {"events": found["answered"], **waited}


def throttled(told, job):
    """Events by a link of 20 MB/s, and how many its bytes allow: predicted from the shapes of a
    request and its answer, before any is sent; the bytes that were counted are the same."""
    rows = 256
    sent = {EMMICHEL.input: np.zeros((rows, *EMMICHEL.row), np.float32)}
    got = {name: np.zeros((rows, *one), np.float32) for name, one in EMMICHEL.outputs.items()}
    each = len(pack(sent, "inputs")[0]) + len(pack(got, "outputs")[0])
    with server(told, job) as asked, Fault(asked.address, bytes_per_s=LINK) as link:
        found, *_ = point(told, job, asked, rows, 2, address=link.address)
    counted = found["bytes"] / found["answered"]
    check.that(abs(counted / each - 1) < 0.01, f"{counted:g} bytes came, {each} were predicted")
    return {"events_predicted": LINK / each, "done": found["events_per_s"]}


FRONTS = {"killed": contextlib.nullcontext, "balanced": haproxy}
ARMS = {name: arm(killed, {"front": front}) for name, front in FRONTS.items()}
METRICS = {"events": Metric("events"), "retries": Metric("tries"), "longest_wait": Metric("s")}
METRICS |= {name: Metric("events/s") for name in ("events_predicted", "done")}
STUDY = Study(
    name="faults",
    arms=ARMS | {"throttled": arm(throttled)},
    sizes={"seconds": 3},
    metrics=METRICS,
    **HOW,
)
