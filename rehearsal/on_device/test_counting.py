"""Known answers of what is counted: operations, bytes, FLOPs, copies, waits, live bytes; and where."""

import gc
import sys

import pytest
import torch

from rehearsal import against_the_cpu, chapter, parts
from rehearsal.counts import Counts, ledger
from rehearsal.device import counted


@pytest.fixture
def x():
    return torch.ones(64, 32, device="cuda")


def test_an_operation_reads_and_writes_each_operand_once(x):
    with counted() as found:
        x + x  # noqa: B018
    assert (found.operations, found.bytes_moved, found.flops) == (1, 3 * x.nbytes, 0)


def test_views_and_allocations_launch_nothing(x):
    with counted() as found:
        x.T[3:].reshape(-1, 1).detach()
        torch.empty_like(x)
    assert found.operations == 1  # the reshape of a transposed view copies


def test_an_expanded_axis_is_read_once(x):
    row = torch.ones(32, device="cuda")
    with counted() as found:
        row.expand(64, 32).clone()
    assert found.bytes_moved == x.nbytes + row.nbytes


def test_a_gather_reads_what_it_returns(x):
    at = torch.tensor([1, 5], device="cuda")
    with counted() as found:
        x[at]
    assert found.bytes_moved == 2 * 2 * 32 * 4 + at.nbytes


def test_flops_of_a_product_a_convolution_and_a_transform(x):
    with counted() as found:
        x @ x.T
    assert found.flops == 2 * 64 * 64 * 32
    with counted() as found:
        torch.nn.functional.conv1d(x[None], torch.ones(8, 64, 3, device="cuda"))
    assert found.flops == 2 * 8 * 64 * 3 * 30
    with counted() as found:
        torch.fft.rfft(x)
    assert found.flops == 0.5 * 5 * 64 * 32 * 5


def test_copies_over_the_link_by_direction():
    host = torch.ones(100)
    with counted() as found:
        device = host.to("cuda")
        device.cpu()
        device[0].item()
    assert (found.link_bytes("up"), found.link_bytes("down")) == (400, 404)
    assert sum(found.links.values()) == 3


@pytest.mark.parametrize(
    "read",
    [
        lambda x: x.sum().item(),
        lambda x: float(x[0, 0]),
        lambda x: bool((x > 0).all()),
        lambda x: x.nonzero(),
        lambda x: x[x > 0],
        lambda x: x.cpu(),
        lambda x: x.tolist(),
        lambda x: torch.equal(x, x),
        lambda x: x.unique(),
        lambda x: repr(x),
        lambda x: f"{x[0, 0]:.2f}",
        lambda x: torch.cuda.synchronize(),
    ],
)
def test_the_host_waits_once(x, read):
    with counted() as found:
        read(x)
    assert found.syncs == 1


def test_the_host_does_not_wait_for_work_nor_for_pinned_copies(x):
    host = torch.ones(8).pin_memory()
    with counted() as found:
        (x * 2).sum()
        host.to("cuda", non_blocking=True)
    assert found.syncs == 0
    with counted() as found:
        torch.ones(8).to("cuda", non_blocking=True)  # not pinned: it blocks whatever was asked
    assert found.syncs == 1


def test_live_and_peak_bytes_are_those_of_storages():
    before = torch.cuda.memory_allocated()
    with counted() as found:
        kept = torch.zeros(1024, device="cuda")
        views = kept[:10], kept.view(2, 512)
        torch.zeros(4096, device="cuda")  # freed at once
        assert torch.cuda.memory_allocated() - before == kept.nbytes and len(views) == 2
    assert found.peak_bytes - before == kept.nbytes + 4 * 4096
    del kept, views
    assert torch.cuda.memory_allocated() == before


def test_a_read_in_a_loop_is_found_with_its_line(x):
    with counted() as found:
        for _ in range(5):
            x.sum().item()
    (told,) = found.findings()
    assert "test_counting.py" in told and "host read in a loop" in told and "5 times" in told


def test_waits_that_are_meant_are_counted_and_no_finding(x):
    with counted() as found:
        for _ in range(5):
            torch.cuda.synchronize()
            torch.cuda.current_stream().synchronize()
    assert found.syncs == 10 and not found.findings()


def test_two_reads_are_no_loop(x):
    with counted() as found:
        for _ in range(2):
            x.sum().item()
    assert not found.findings()


@pytest.mark.parametrize(
    ("copies", "says"),
    [
        (lambda: [torch.full((99,), 1.5).to("cuda") for _ in range(2)], "go up again"),
        (lambda: torch.full((99,), 2.5, device="cuda").cpu().to("cuda"), "just came down"),
        (lambda: [x.cpu() for x in [torch.full((99,), 3.5, device="cuda")] for _ in range(2)], "come down again"),
    ],
)
def test_bytes_that_are_there_already_are_a_needless_transfer(copies, says):
    with counted() as found:
        copies()
    (told,) = found.findings()
    assert "needless transfer" in told and says in told


def test_a_module_goes_up_without_a_finding():
    with counted() as found:
        torch.nn.Sequential(*(torch.nn.Linear(9, 9) for _ in range(4))).cuda()
    assert not found.findings()


def test_an_optimiser_takes_a_cards_path():
    net = torch.nn.Sequential(*(torch.nn.Linear(9, 9) for _ in range(4))).cuda()
    net(torch.ones(2, 9, device="cuda")).sum().backward()
    with counted() as found:
        torch.optim.SGD(net.parameters(), 0.1).step()
    assert {name for name, *_ in found.work} == {"_foreach_add_"}


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode, torch.enable_grad])
def test_what_operations_are_made_of_is_counted_in_every_mode(mode):
    """In inference mode compound operations (linear, conv1d, item) come to the device whole; a card never sees them."""
    x, weight, kernel = (torch.ones(*shape, device="cuda") for shape in ((4, 8), (2, 8), (3, 1, 2)))
    with mode(), counted() as counts:
        torch.nn.functional.linear(x, weight)
        torch.nn.functional.conv1d(x[:, None], kernel).sum().item()
    assert {name for name, *_ in counts.work} == {"mm", "convolution", "sum"}
    assert counts.flops == 2 * 4 * 8 * 2 + 2 * 4 * 3 * 7 * 2 and counts.syncs == 1


def test_windows_that_overlap_are_read_once():
    x = torch.ones(1000, dtype=torch.float32, device="cuda")
    with counted() as counts:
        x.unfold(0, 100, 1).sum(1)
    assert counts.bytes_moved == 4 * 1000 + 4 * 901


def test_convolutions_are_counted_as_tf32_and_products_when_told():
    x, kernel = torch.ones(1, 2, 8, device="cuda"), torch.ones(2, 2, 3, device="cuda")
    with counted() as counts:
        torch.nn.functional.conv1d(x, kernel)
        kernel[0] @ kernel[0].T
    assert {(name, kind) for name, kind, *_ in counts.work} == {("convolution", "tf32"), ("mm", "float32")}


def test_a_chapter_that_stays_on_the_cpu_is_told_so(monkeypatch):
    monkeypatch.setattr(ledger, "counts", Counts())  # as in a process of its own
    *_, told = chapter.rehearse([(1, "import torch; torch.ones(3).sum()")])
    assert "error" not in told["cells"][0] and told["findings"] == [chapter.NOTHING]


def test_the_formula_is_within_its_reach_on_this_cpu():
    """The kinds of work that the roofline describes are predicted within a factor of eight on any loaded machine."""
    (found,) = against_the_cpu.generic(against_the_cpu.here(), ["sums of a long array"]).values()
    assert 1 / 8 < found.ratio < 8


def mixed(sizes, device):
    """A product in bfloat16 where the card has units for it"""
    kind = torch.bfloat16 if torch.cuda.is_bf16_supported(including_emulation=False) else torch.float32
    x = torch.ones(sizes["n"], 8, device=device, dtype=kind)
    return lambda: x @ x.T


def test_at_tier_gpu_the_card_has_no_bfloat16_units_as_a_t4_and_elsewhere_it_has():
    found = parts.of_module(sys.modules[__name__], {tier: {"n": 4} for tier in ("check", "gpu", "big")}, ["mixed"])
    kinds = {tier: [kind for kind, *_ in entry["work"]] for tier, entry in found["parts"]["mixed"]["tiers"].items()}
    assert kinds == {"check": ["bfloat16"], "gpu": ["float32"], "big": ["bfloat16"]}
    assert torch.cuda.get_device_capability() == (8, 0) and torch.cuda.is_bf16_supported()


def ring(where="cuda"):
    """A MiB that only the collector frees."""
    held = [torch.ones(2**18, device=where)]
    held.append(held)


def test_a_peak_does_not_hold_what_others_left_to_the_collector():
    gc.collect()
    before = ledger.live
    gc.disable()  # as if it came late
    ring()
    found = parts.counted(lambda sizes, where: lambda: torch.ones(8, device=where), {})
    gc.enable()
    assert found["peak_bytes"] - before < 2**20


@pytest.mark.parametrize("threshold", [1, 10**6])
def test_a_peak_does_not_depend_on_when_the_collector_comes(threshold):
    gc.collect()
    before, usual = ledger.live, gc.get_threshold()
    gc.set_threshold(threshold, 1, 1)
    try:
        found = parts.counted(lambda sizes, where: lambda: [ring(where) for _ in range(3)], {})
    finally:
        gc.set_threshold(*usual)
    assert found["peak_bytes"] - before == 3 * 2**20, "of the counted call alone"
