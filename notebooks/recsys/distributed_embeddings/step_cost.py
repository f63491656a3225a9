"""What a step costs by a plan: bytes to the last one, seconds by a model of a few rates.

    traffic   ids to the tables, vectors back, gradients there again, copied weights averaged
    rows      read in the forward pass; then gradients, weights and the optimiser's sums
    layers    2 operations for each weight and sample, three times: once forward, twice back
    seconds   starts, bytes over the link, bytes of rows, operations, each over its rate

The busiest device counts, by what it sends or receives. The parts are taken one after the
other, as a plain step does them; an engine that overlaps them is faster.
"""

from dataclasses import dataclass, replace

import numpy as np


def traffic(
    plan, batch, hot, index_bytes=4, vector_bytes=4, dense=0, ragged=False, model_parallel=False
):
    """{what: bytes[from][to]} of a step on `batch` samples for each process, what stays at home
    included.

    `hot`: the ids of each input in a sample (means, where bags are ragged). `dense`: weights of
    the copied network. A plan on 2 devices, one table of width 8 on each, 10 samples: 320 bytes
    of vectors from each to each.
    """
    devices = range(plan.devices)
    wanted = [plan.wanted(plan.on(device)) for device in devices]
    asked = [sum(hot[one] for one, _ in pairs) * batch * index_bytes for pairs in wanted]
    vectors = [sum(piece.cols for _, piece in pairs) * batch * vector_bytes for pairs in wanted]
    found = {} if model_parallel else {"ids": [list(asked) for _ in devices]}
    if ragged and not model_parallel:
        found["lengths"] = [[len(pairs) * batch * 4 for pairs in wanted] for _ in devices]
    found["vectors"] = [[own] * plan.devices for own in vectors]
    found["gradients"] = [list(vectors) for _ in devices]
    copied = dense + sum(piece.elements for piece in plan.copies())
    found["all-reduce"] = [[copied * vector_bytes] for _ in devices]
    return found


def sent(matrix, device):
    """The bytes that leave a device for others."""
    return sum(size for to, size in enumerate(matrix[device]) if to != device)


@dataclass(frozen=True)
class Work:
    """What the busiest device does in a step; `asked`: inputs of its pieces, each counted."""

    exchanges: int
    link_bytes: float
    row_bytes: float
    flops: float
    asked: int


def work(plan, batch, hot, dense=0, touches=4, **more):
    """The Work of a step: `batch` samples for each process, `dense` weights in the network.

    `touches`: how often a looked-up row's bytes move in a step. SGD: read; then the gradient,
    the weight read, the weight written. Adagrad adds its sum, read and written: 6.
    """
    moved = traffic(plan, batch, hot, dense=dense, **more)
    reduced = (
        moved.pop("all-reduce")[0][0] * 2 * (plan.devices - 1) / plan.devices
    )  # a ring's share
    wanted = [plan.wanted(plan.on(device)) for device in range(plan.devices)]
    rows = [sum(hot[one] * piece.cols for one, piece in pairs) for pairs in wanted]
    own = sum(hot[one] * piece.cols for one, piece in plan.wanted(plan.copies()))
    both = [matrix for one in moved.values() for matrix in (one, list(zip(*one, strict=True)))]
    pairs = zip(both[::2], both[1::2], strict=True)  # what each sends and receives
    link = sum(max(sent(m, d) for m in pair for d in range(plan.devices)) for pair in pairs)
    return Work(
        exchanges=(len(moved) + 1) * (plan.devices > 1),
        link_bytes=link + reduced,
        row_bytes=4 * touches * batch * (max(rows) * plan.devices + own),
        flops=6 * dense * batch,
        asked=max(map(len, wanted)),
    )


@dataclass(frozen=True)
class Rates:
    """A machine in seconds: for a step, for each exchange, lookup, byte over the link, byte of
    rows, operation.
    """

    step_s: float = 0.0
    exchange_s: float = 0.0
    input_s: float = 0.0
    link_s: float = 0.0
    row_s: float = 0.0
    flop_s: float = 0.0

    def seconds(self, work):
        """The time of a step, part after part."""
        return sum(self.parts(work).values())

    def parts(self, work):
        """The same by part."""
        return {
            "starts": self.step_s
            + self.exchange_s * work.exchanges
            + self.input_s * work.asked,
            "link": self.link_s * work.link_bytes,
            "rows": self.row_s * work.row_bytes,
            "layers": self.flop_s * work.flops,
        }


FITTED = ("step_s", "exchange_s", "input_s", "row_s")


def fitted(works, seconds, known):
    """A function from known Rates to Rates that tell these times best, in relative error.

    What `known` says of link and arithmetic, one for each time, stays; least squares without
    negative rates, over at least as many times as there are free rates.
    """
    from scipy.optimize import nnls

    if not len(works) == len(seconds) == len(known) or len(works) < len(FITTED):
        raise ValueError(
            f"{len(works)} works, {len(seconds)} times: equally many, {len(FITTED)} up"
        )
    rows = np.array([[1.0, w.exchanges, w.asked, w.row_bytes] for w in works])
    told = zip(works, known, strict=True)
    given = np.array([k.link_s * w.link_bytes + k.flop_s * w.flops for w, k in told])
    scale, seconds = np.maximum(rows.max(0), 1e-30), np.array(seconds)
    found, _ = nnls(rows / scale / seconds[:, None], (seconds - given) / seconds)
    rates = dict(zip(FITTED, (found / scale).tolist(), strict=True))
    return lambda base: replace(base, **rates)


def off_by(predicted, measured):
    """The usual factor between them: the geometric mean of max(p / m, m / p); 1 is exact."""
    return float(np.exp(np.mean(np.abs(np.log(np.array(predicted) / np.array(measured))))))


# NVIDIA's datasheets of an A100-80GB in a DGX, each second: memory, NVLink one way, one
# 200 Gb/s port for each GPU, TF32.
A100 = {"memory": 2.039e12, "nvlink": 300e9, "port": 25e9, "flops": 156e12}


def a100(devices):
    """The Rates of the datasheet: beyond eight devices an exchange crosses the slower ports."""
    return Rates(
        link_s=1 / (A100["nvlink"] if devices <= 8 else A100["port"]),
        row_s=1 / A100["memory"],
        flop_s=1 / A100["flops"],
    )
