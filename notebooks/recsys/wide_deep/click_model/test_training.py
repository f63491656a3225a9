"""Training: the schedule's numbers, steps equal to a plain loop, seeds, precision, learning."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from . import training
from .network import Sizes, WideDeep
from .ranking import map_at_k
from .test_optimisers import ftrl_reference, rmsprop_reference
from .training import Options, Rows, Trainer, evaluate, fit, predict, schedule

SIZES = Sizes((40, 6), (4, 2), (5,), (3,), numbers=3, hidden=(16,))


def clicks(displays, seed=0):
    """A data set of five ads a display; the clicked one is told by bucket, number and slot."""
    draw = torch.Generator().manual_seed(seed)
    rows = displays * 5
    categories = torch.stack(
        [torch.randint(n, (rows,), generator=draw) for n in SIZES.buckets], 1
    )
    multi_hot = torch.randint(5, (rows, 1, 3), generator=draw)
    numbers = torch.randn(rows, 3, generator=draw)
    taste = (categories[:, 0] % 4) + numbers[:, 0] + (multi_hot == 2).any(2)[:, 0] * 2
    noise = -torch.rand(rows, generator=draw).log().neg().log()  # Gumbel: a choice by logits
    chosen = (taste + noise).reshape(-1, 5).argmax(1)
    clicked = torch.nn.functional.one_hot(chosen, 5).flatten().float()
    display_id = torch.arange(displays).repeat_interleave(5)
    return {
        "categories": categories,
        "multi_hot": multi_hot,
        "numbers": numbers,
        "clicked": clicked,
        "display_id": display_id,
        "ad_id": categories[:, 0],
    }


TRAIN, VALID = clicks(600), clicks(200, seed=1)
QUICK = Options(epochs=2, warmup_epochs=0.5, deep_lr=0.02)


def model_of(seed=0, **options):
    torch.manual_seed(seed)
    return WideDeep(SIZES, **options)


def test_the_schedule_of_the_article():
    steps = 457
    assert schedule(1, steps) == 1 / 2742 and schedule(1371, steps) == 0.5
    assert schedule(2741, steps) == 2741 / 2742 and schedule(2742, steps) == 0.25
    assert schedule(13 * steps, steps) == 0.25 and schedule(13 * steps + 1, steps) == 0.125
    assert schedule(20 * steps, steps) == 0.125


def test_a_schedule_without_warm_up_begins_at_a_quarter():
    assert [schedule(s, 10, 2, 0) for s in (1, 10, 11, 20)] == [0.25, 0.25, 0.125, 0.125]


def test_the_defaults_are_the_articles():
    options = Options()
    assert (options.epochs, options.warmup_epochs) == (20, 6)
    assert (options.deep_lr, options.rho, options.wide_lr) == (1.2e-4, 0.5, 0.02)


def test_steps_of_both_parts_equal_the_formulas_under_the_schedule():
    model = model_of(dropout=0).double()
    kept = {name: [w.detach().clone()] for name, w in model.named_parameters()}
    grads = {name: [] for name in kept}
    trainer = Trainer(model, Options(epochs=4, warmup_epochs=2), steps_per_epoch=2)
    rates = []
    data = {n: x.double() if x.is_floating_point() else x for n, x in TRAIN.items()}
    for batch in Rows(data, 375):
        rates.append(trainer.deep_lr)
        trainer.step(batch)
        for name, weight in model.named_parameters():
            grads[name].append(weight.grad.clone())
            kept[name].append(weight.detach().clone())
    assert rates[:3] == pytest.approx([1.2e-4 / 4, 1.2e-4 / 2, 1.2e-4 * 3 / 4])
    assert rates[3:] == pytest.approx([3e-5] * 3 + [1.5e-5] * 2)
    for name in ("wide.weight", "wide.bias", "deep.tables.weights.0", "deep.layers.0.weight"):
        spot = tuple(grads[name][0].abs().flatten().argmax().unsqueeze(0).tolist())[0]
        steps = [float(g.flatten()[spot]) for g in grads[name]]
        path = [float(w.flatten()[spot]) for w in kept[name]]
        if name.startswith("wide"):
            want = ftrl_reference(steps, [0.02] * 8)
        else:
            want = rmsprop_reference(steps, rates, start=path[0], rho=0.5)
        assert path[1:] == pytest.approx(want, rel=1e-9, abs=1e-14)


def test_the_gradient_is_that_of_the_mean_cross_entropy():
    model, batch = model_of(dropout=0), next(iter(Rows(TRAIN, 50)))
    trainer = Trainer(model, QUICK, 1)
    loss = trainer.step(batch)
    again = model_of(dropout=0)
    p = torch.sigmoid(again(batch["categories"], batch["multi_hot"], batch["numbers"]))
    want = -torch.where(batch["clicked"] == 1, p, 1 - p).log().mean()
    want.backward()
    torch.testing.assert_close(loss, want.detach())
    for ours, theirs in zip(model.parameters(), again.parameters(), strict=True):
        torch.testing.assert_close(ours.grad, theirs.grad)


def test_a_step_forgets_the_gradient_before():
    model, (first, second) = model_of(dropout=0), list(Rows(TRAIN, 1500))
    trainer = Trainer(model, QUICK, 2)
    trainer.step(first)
    again = model_of(dropout=0)
    again.load_state_dict(model.state_dict())
    trainer.step(second)
    Trainer(again, QUICK, 2).step(second)
    for ours, theirs in zip(model.parameters(), again.parameters(), strict=True):
        torch.testing.assert_close(ours.grad, theirs.grad)


def test_sparse_gradients_train_to_the_same_weights():
    found = []
    for sparse in (False, True):
        model = model_of(sparse=sparse).double()
        data = {n: x.double() if x.is_floating_point() else x for n, x in TRAIN.items()}
        fit(model, Rows(data, 256, seed=0), data, QUICK)
        found.append([weight.detach() for weight in model.parameters()])
    torch.testing.assert_close(found[0], found[1], rtol=1e-9, atol=1e-12)


def test_training_learns_and_the_curve_says_so():
    model = model_of()
    curve = fit(model, Rows(TRAIN, 100, seed=0), VALID, Options(4, 1, deep_lr=0.02))
    assert [epoch.number for epoch in curve] == [1, 2, 3, 4]
    assert curve[-1].map_at_12 == evaluate(model, VALID) != evaluate(model, TRAIN)
    assert curve[-1].loss < curve[0].loss and curve[-1].map_at_12 > 0.7
    assert all(epoch.rows == 3000 and epoch.seconds > 0 for epoch in curve)


def test_a_seed_fixes_a_run_and_another_changes_it():
    def run(seed):
        options = Options(2, 0.5, deep_lr=0.02, seed=seed)
        rows = Rows(TRAIN, 400, seed)
        curve = fit(model_of(seed), rows, VALID, options)
        return [(epoch.loss, epoch.map_at_12) for epoch in curve]

    assert run(3) == run(3) != run(4)


@pytest.mark.parametrize("parts", ["wide", "deep"])
def test_a_part_alone_trains(parts):
    curve = fit(model_of(parts=parts), Rows(TRAIN, 100, seed=0), VALID, QUICK)
    assert curve[-1].map_at_12 > 0.55  # chance gives 0.457


def test_bfloat16_learns_nearly_as_float32_does():
    found = []
    for amp in (False, True):
        options = Options(2, 0.5, deep_lr=0.02, amp=amp)
        found.append(fit(model_of(), Rows(TRAIN, 100, seed=0), VALID, options)[-1])
    assert found[0].loss != found[1].loss
    assert abs(found[0].map_at_12 - found[1].map_at_12) < 0.03


@pytest.mark.parametrize(("has", "kind"), [(True, torch.bfloat16), (False, torch.float16)])
def test_a_card_without_bfloat16_gets_float16(monkeypatch, has, kind):
    monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda including_emulation: has)
    assert training.half(torch.device("cuda")) == kind
    assert training.half(torch.device("cpu")) == torch.bfloat16


def test_float16_scales_its_losses(monkeypatch):
    monkeypatch.setattr(training, "half", lambda device: torch.float16)
    trainer = Trainer(model_of(), Options(2, 0.5, deep_lr=0.02, amp=True), 1)
    assert trainer.scaler.is_enabled()
    for batch in Rows(TRAIN, 1000, seed=0):
        assert torch.isfinite(trainer.step(batch))
    assert not Trainer(model_of(), QUICK, 1).scaler.is_enabled()


KILLED = """
import os, signal, sys
from click_model import test_training as t, training
evaluate, calls = training.evaluate, []

def killed(*args):
    calls.append(args)
    if len(calls) == 3:
        os.kill(os.getpid(), signal.SIGKILL)
    return evaluate(*args)

training.evaluate = killed
t.kept_run(sys.argv[1])
"""


def kept_run(folder):
    """(curve, weights) of four epochs with dropout, kept in a folder."""
    model, options = model_of(sparse=True), Options(4, 1, deep_lr=0.02)
    curve = fit(model, Rows(TRAIN, 400, seed=0), VALID, options, folder)
    return [(one.loss, one.map_at_12) for one in curve], model.state_dict()


def test_a_killed_training_goes_on_with_the_steps_it_would_have_taken(tmp_path):
    code = [sys.executable, "-c", KILLED, str(tmp_path / "run")]
    done = subprocess.run(code, cwd=Path(__file__).parents[1], env=os.environ)
    assert done.returncode == -signal.SIGKILL
    steps = []
    step = Trainer.step
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Trainer, "step", lambda *args: steps.append(1) or step(*args))
        curve, weights = kept_run(tmp_path / "run")
    assert len(steps) == 2 * 8  # of four epochs two were kept
    whole = kept_run(tmp_path / "whole")
    assert curve == whole[0]
    torch.testing.assert_close(weights, whole[1], rtol=0, atol=0)


def test_the_folder_of_another_training_is_refused(tmp_path):
    kept_run(tmp_path)
    with pytest.raises(ValueError, match="begun with another options"):
        fit(model_of(), Rows(TRAIN, 400, seed=0), VALID, QUICK, tmp_path)


def test_steps_go_through_what_was_compiled(monkeypatch):
    calls = []

    def compile_(model):
        return lambda *batch: calls.append(len(batch[0])) or model(*batch)

    monkeypatch.setattr(training.torch, "compile", compile_)
    fit(model_of(), Rows(TRAIN, 1000), VALID, Options(1, 0, compile=True))
    assert calls == [1000, 1000, 1000]


def test_predictions_are_in_order_without_dropout_and_leave_the_mode():
    model = model_of(dropout=0.9).train()
    found = predict(model, VALID, batch=7)
    assert model.training and len(found) == len(VALID["clicked"])
    want = model.eval()(VALID["categories"], VALID["multi_hot"], VALID["numbers"])
    torch.testing.assert_close(found, want.detach())
    score = map_at_k(want.detach(), VALID["clicked"], VALID["display_id"])
    assert evaluate(model, VALID) == score


def test_predictions_refuse_a_neighbours_bucket():
    bad = VALID | {"categories": VALID["categories"] + 100}
    with pytest.raises(ValueError, match="has buckets"):
        predict(model_of(), bad)


def test_rows_come_once_an_epoch_and_in_another_order_each():
    rows = Rows({"at": torch.arange(103)}, 20, seed=1)
    epochs = [torch.cat([batch["at"] for batch in rows]) for _ in range(2)]
    assert len(rows) == 6 and not torch.equal(*epochs)
    assert all(torch.equal(epoch.sort().values, torch.arange(103)) for epoch in epochs)
    kept = torch.cat([batch["at"] for batch in Rows({"at": torch.arange(103)}, 20)])
    assert torch.equal(kept, torch.arange(103))


def test_rows_stay_where_they_lie_or_go_to_the_device_that_is_named():
    there = {"at": torch.zeros(3, device="meta")}  # from which nothing could come back
    assert all(part["at"].is_meta for part in Rows(there, 2))
    assert all(part["at"].is_meta for part in Rows({"at": torch.zeros(3)}, 2, device="meta"))


def test_whole_joins_what_rows_split():
    joined = training.whole(Rows(VALID, 64))
    assert all(torch.equal(joined[name], VALID[name]) for name in VALID)


def test_a_loss_that_is_not_finite_stops_training():
    broken = TRAIN | {"numbers": TRAIN["numbers"] * float("inf")}
    with pytest.raises(FloatingPointError, match="epoch 1: the loss is nan"):
        fit(model_of(), Rows(broken, 100), VALID, QUICK)


def test_the_precision_of_products_is_as_before():
    before = torch.get_float32_matmul_precision()
    try:
        for precision, other in (("highest", True), ("high", False)):
            torch.set_float32_matmul_precision(precision)
            fit(model_of(), Rows(TRAIN, 1500), VALID, Options(1, 0, tf32=other))
            assert torch.get_float32_matmul_precision() == precision
    finally:
        torch.set_float32_matmul_precision(before)


def test_options_that_make_no_sense_are_refused():
    with pytest.raises(ValueError, match="7 epochs of warm-up in 6"):
        Options(epochs=6, warmup_epochs=7)
    with pytest.raises(ValueError, match="compile=True with sparse=True"):
        Trainer(model_of(sparse=True), Options(compile=True), 1)
    with pytest.raises(ValueError, match="batches of 0"):
        Rows(TRAIN, 0)
    with pytest.raises(ValueError, match="rows in batches"):
        Rows({"a": torch.zeros(2), "b": torch.zeros(3)}, 2)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
@pytest.mark.parametrize("amp", [False, True])
@pytest.mark.parametrize("sparse", [False, True])
def test_gpu_trains_as_the_cpu_does(amp, sparse):
    options = Options(2, 0.5, deep_lr=0.02, amp=amp)
    here = fit(model_of(dropout=0), Rows(TRAIN, 100, seed=0), VALID, QUICK)
    model = model_of(dropout=0, sparse=sparse).cuda()
    there = fit(model, Rows(TRAIN, 100, seed=0, device="cuda"), VALID, options)
    assert abs(there[-1].map_at_12 - here[-1].map_at_12) < 0.03
