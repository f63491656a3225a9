"""One training step as a GPU would run it, the naive way, and a broken one.

`make predict` counts them without a GPU, at the sizes of each tier.
"""

from .bench_training import draw
from .network import Sizes, WideDeep
from .training import Options, Trainer, predict

ROWS = 65_536  # scored at once
# how many rows a batch touches, its values say; at tier big a CPU would take minutes
BY_VALUES = dict.fromkeys(("ours", "broken"), ("check", "gpu"))
METRICS = {"evaluation_rate": ("scores", lambda sizes: ROWS)}
AHEAD = {
    "naive": "65,536 rows with 618 values each bring 40.5 million of them to tables of 42.8 "
    "million weights, so that gathering and scattering rows moves more bytes than it spares; "
    "rows pay where the tables outgrow the batch"
}


def ours(sizes, device):
    """One training step, the gradients of tables as the rows that a batch touched"""
    trainer, batch = _ready(sizes, device, sparse=True)
    return lambda: trainer.step(batch)


def scores(sizes, device):
    """The scores of 65,536 rows that lie with the host"""
    shape, model = _model(sizes, device, sparse=True)
    rows = draw(shape, ROWS)
    return lambda: predict(model, rows, ROWS)


def naive(sizes, device):
    """The same step, with gradients as large as the tables"""
    trainer, batch = _ready(sizes, device, sparse=False)
    return lambda: trainer.step(batch)


def broken(sizes, device):
    """The same step, but all weights come down to the host after it, as for a checkpoint"""
    trainer, batch = _ready(sizes, device, sparse=True)

    def step():
        loss = trainer.step(batch)
        return loss if [weight.cpu() for weight in trainer.model.parameters()] else None

    return step


def _model(sizes, device, sparse):
    shape = Sizes.published().scaled(dims=sizes["thin"], hidden=sizes["hidden"])
    return shape, WideDeep(shape, sparse=sparse).to(device)


def _ready(sizes, device, sparse):
    shape, model = _model(sizes, device, sparse)
    batch = {name: values.to(device) for name, values in draw(shape, sizes["batch"]).items()}
    return Trainer(model, Options(), 10_000), batch
