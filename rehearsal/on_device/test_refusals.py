"""What a card refuses is refused here, and what cannot be rehearsed raises with its reason."""

import io
import threading

import numpy as np
import pytest
import torch
import torch.utils.checkpoint

from rehearsal import dispatch
from rehearsal.refused import REASONS, CannotRehearse, raising
from rehearsal.streams import StreamError


@pytest.fixture
def x():
    torch.manual_seed(0)
    return torch.randn(5, 7, device="cuda")


@pytest.fixture
def side(x):
    """A second stream, which follows what made `x`."""
    made = torch.cuda.Stream()
    made.wait_stream(torch.cuda.current_stream())
    return made


@pytest.mark.parametrize(
    "mixed",
    [
        lambda x, host: x + host,
        lambda x, host: host * x,
        lambda x, host: x @ host.T,
        lambda x, host: torch.cat([x, host]),
        lambda x, host: torch.where(x > 0, x, host),
        lambda x, host: x.add_(host),
        lambda x, host: torch.nn.functional.linear(x, host),
        lambda x, host: torch.nn.functional.mse_loss(x, host),
        lambda x, host: torch.stack([host, x]),
        lambda x, host: host[torch.zeros(2, dtype=torch.long, device="cuda")],
        lambda x, host: x.index_put_((torch.zeros(5, dtype=torch.long, device="cuda"),), host),
        lambda x, host: torch.add(x, x, out=host),
    ],
)
def test_tensors_of_both_devices_do_not_mix(x, mixed):
    with pytest.raises(RuntimeError, match="same device"):
        mixed(x, torch.ones(5, 7))


def test_a_number_of_the_host_and_an_index_of_the_host_are_taken_as_a_card_takes_them(x):
    assert torch.equal((x * torch.tensor(2.0)).cpu(), 2 * x.cpu())
    assert torch.equal(x[torch.tensor([3, 1])].cpu(), x.cpu()[[3, 1]])


def test_a_module_of_the_host_refuses_an_input_of_the_device(x):
    with pytest.raises(RuntimeError, match="same device"):
        torch.nn.Linear(7, 2)(x)


@pytest.mark.parametrize(
    "read", [lambda x: x.numpy(), np.asarray, np.array, lambda x: np.add(x, 1), lambda x: np.ones(7) @ x.T]
)
def test_numpy_reads_nothing_of_the_device(x, read):
    with pytest.raises((TypeError, RuntimeError), match="numpy|same device"):
        read(x)


@pytest.mark.parametrize(
    "draw",
    [
        lambda g: torch.randn(3, device="cuda", generator=g),
        lambda g: torch.empty(3, device="cuda").normal_(generator=g),
        lambda g: torch.randperm(3, device="cuda", generator=g),
        lambda g: torch.multinomial(torch.ones(3, device="cuda"), 2, generator=g),
    ],
)
def test_a_generator_of_the_host_draws_nothing_for_the_device(draw):
    with pytest.raises(RuntimeError, match="generator"):
        draw(torch.Generator())
    assert draw(torch.Generator("cuda").manual_seed(1)).device.type == "cuda"


def test_a_generator_of_the_device_draws_nothing_for_the_host():
    with pytest.raises(RuntimeError, match="generator"):
        torch.randn(3, generator=torch.Generator("cuda"))


@pytest.mark.parametrize(
    "second",
    [
        lambda x: torch.ones(2, device="cuda:1"),
        lambda x: torch.ones(2).to("cuda:1"),
        lambda x: torch.ones(2).cuda(1),
        lambda x: x.to(1),
        lambda x: torch.cuda.set_device(1),
    ],
)
def test_there_is_no_second_card(x, second):
    with pytest.raises(RuntimeError, match="invalid device ordinal"):
        second(x)
    assert torch.ones(2).cuda(0).device == x.to(0).device == torch.device("cuda", 0)


def test_only_memory_of_the_host_is_pinned(x):
    with pytest.raises(RuntimeError, match="only dense CPU tensors"):
        x.pin_memory()
    host = torch.ones(3)
    assert not host.is_pinned() and host.pin_memory().is_pinned() and host.pin_memory()[1:].is_pinned()


def test_pinned_memory_may_not_change_before_its_copy_is_known_to_be_over():
    host = torch.ones(8).pin_memory()
    host.to("cuda", non_blocking=True)
    host[0] = 2
    with pytest.raises(StreamError, match="test_refusals.py.*pinned memory was written"):
        torch.cuda.synchronize()


def test_pinned_memory_may_change_after_its_event():
    host, event = torch.ones(8).pin_memory(), torch.cuda.Event()
    host.to("cuda", non_blocking=True)
    event.record()
    event.synchronize()
    host[0] = 2
    torch.cuda.synchronize()


def test_a_copy_to_the_host_that_does_not_block_holds_poison_until_somebody_waits(x):
    found = x.to("cpu", non_blocking=True)
    assert found.isnan().all()
    torch.cuda.synchronize()
    assert torch.equal(found, x.cpu())


def test_a_tensor_of_another_stream_needs_a_wait(x, side):
    with torch.cuda.stream(side):
        y = x + 1
    with pytest.raises(StreamError, match="without a wait between the streams"):
        y.sum()
    torch.cuda.current_stream().wait_stream(side)
    assert y.sum().item() == pytest.approx((x.cpu() + 1).sum().item())


def test_a_freed_tensor_of_another_stream_leaves_nothing_at_its_address(x, side):
    for _ in range(50):
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            x + 1  # freed at once
        kept = [torch.eye(5, device="cuda").to_sparse()._values() for _ in range(8)]  # views: nothing writes them here
        assert [values.sum().item() for values in kept] == [5] * 8


def test_an_event_does_not_stand_for_what_is_written_after_it(x, side):
    with torch.cuda.stream(side):
        y = x + 1
        done = side.record_event()
        y.add_(1)
    torch.cuda.current_stream().wait_event(done)
    with pytest.raises(StreamError, match="without a wait"):
        y.sum()
    done.synchronize()
    with pytest.raises(StreamError, match="without a wait"):
        y.sum()


def test_an_event_between_streams_is_a_wait(x, side):
    with torch.cuda.stream(side):
        y = x + 1
        done = side.record_event()
    torch.cuda.current_stream().wait_event(done)
    assert y.sum().isfinite()


def test_each_thread_has_a_current_stream_of_its_own(x, side):
    seen = []

    def reads():
        with torch.cuda.stream(side):
            seen.append((x + 1, torch.cuda.current_stream()))
            entered.set()
            left.wait(10)

    entered, left = threading.Event(), threading.Event()
    thread = threading.Thread(target=reads)
    thread.start()
    entered.wait(10)
    assert torch.cuda.current_stream() is torch.cuda.default_stream()
    left.set()
    thread.join()
    assert seen[0][1] is side
    with pytest.raises(StreamError, match="without a wait"):
        seen[0][0].sum()


@pytest.mark.parametrize(
    ("what", "act"),
    [
        ("torch.compile", lambda x: torch.compile(torch.sin)(x)),
        ("torch.compile", lambda x: torch.compile(torch.nn.Linear(7, 2).cuda())(x)),
        ("CUDA graphs", lambda x: torch.cuda.CUDAGraph()),
        ("CUDA graphs", lambda x: torch.cuda.make_graphed_callables(torch.sin, (x,))),
        ("a pointer to device memory", lambda x: x.data_ptr()),
        ("DLPack", lambda x: torch.utils.dlpack.to_dlpack(x)),
        ("DLPack", lambda x: np.from_dlpack(x)),
        ("a pointer to device memory", lambda x: x.__cuda_array_interface__),
        ("sharing a device tensor with another process", lambda x: x.share_memory_()),
        ("NCCL", lambda x: torch.distributed.init_process_group("nccl")),
        ("cuDNN's recurrent networks", lambda x: torch.nn.GRU(7, 3).cuda()(x)),
        ("cuDNN's recurrent networks", lambda x: torch.nn.LSTM(7, 3).cuda()(x)),
        ("cuDNN's recurrent networks", lambda x: torch.nn.RNN(7, 3).cuda()(x)),
    ],
)
def test_what_cannot_be_rehearsed_says_why(x, what, act):
    with pytest.raises(CannotRehearse, match=what) as error:
        act(x)
    assert REASONS[what] in str(error.value)


@pytest.mark.parametrize(
    "act",
    [
        lambda x: torch.histogram(x, 4),
        lambda x: torch.histogram(x, torch.linspace(0, 1, 3, device="cuda")),
        lambda x: torch.histogramdd(x, [2] * 7),
        lambda x: torch.sparse.spdiags(x, torch.arange(5, device="cuda"), (5, 7)),
        lambda x: torch.sparse.mm(torch.eye(5).to_sparse_csr().to("cuda"), x, "amax"),
    ],
)
@pytest.mark.filterwarnings("ignore")
def test_what_is_written_for_the_cpu_alone_does_not_run(x, act):
    with pytest.raises(NotImplementedError, match="kernel of it for the CPU and none for a card"):
        act(x)


def test_what_is_written_for_cards_or_made_of_other_operations_runs(x):
    assert torch.histc(x, 4).sum().item() == 35 and torch.nn.functional.gelu(x).shape == x.shape


def test_least_squares_take_a_cards_only_driver(x):
    b, full = torch.ones(7, 1, device="cuda"), x.T + torch.eye(7, 5, device="cuda")
    for driver in ("gelsd", "gelsy", "gelss"):
        with pytest.raises(RuntimeError, match="should be one of .gels."):
            torch.linalg.lstsq(full, b, driver=driver)
    wanted = torch.linalg.lstsq(full.cpu(), b.cpu(), driver="gels").solution
    assert torch.equal(torch.linalg.lstsq(full, b).solution.cpu(), wanted)


@pytest.mark.parametrize("dtype", [torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8])
@pytest.mark.parametrize(
    "product",
    [
        lambda x: x @ x.T,
        lambda x: x[None] @ x.T[None],
        lambda x: x @ x[0],
        lambda x: torch.dot(x[0], x[0]),
        lambda x: torch.einsum("ij,kj->ik", x, x),
        lambda x: torch.addmm(x[:, :5], x, x.T),
        lambda x: torch.nn.functional.conv1d(x[None], x[:, :, None]),
        lambda x: torch.nn.functional.linear(x, x),
    ],
)
def test_whole_numbers_are_not_multiplied_by_a_cards_products(product, dtype):
    x = torch.ones(5, 5, device="cuda", dtype=dtype)
    with pytest.raises(NotImplementedError, match="_cuda. not implemented for '(Long|Int|Short|Char|Byte)'"):
        product(x)


def test_whole_numbers_are_added_up_and_multiplied_one_by_one():
    x = torch.arange(6, device="cuda")
    assert (x * x).sum().item() == 55 and torch.outer(x, x).sum().item() == 225
    small = torch.ones(32, 32, dtype=torch.int8, device="cuda")
    assert torch._int_mm(small, small).sum().item() == 32**3  # the one product that is written for them


def test_compile_and_gru_go_on_for_the_host():
    assert torch.nn.GRU(7, 3)(torch.ones(2, 7))[0].shape == (2, 3)
    assert callable(torch.compile(torch.sin))


def test_more_than_the_cards_memory_is_refused(monkeypatch):
    monkeypatch.setattr(torch.cuda.get_device_properties(0), "total_memory", 1 << 20)
    with pytest.raises(torch.OutOfMemoryError, match="pretended"):
        torch.empty(1 << 20, device="cuda")


def test_no_receipt_is_written(tmp_path, monkeypatch):
    from helpers import receipts

    monkeypatch.setenv("REBUILT_RECEIPTS", str(tmp_path))
    receipt = receipts.Receipt.__new__(receipts.Receipt)
    assert receipt.write() is None and not list(tmp_path.iterdir())


def test_a_file_keeps_a_tensor_of_the_device(x):
    file = io.BytesIO()
    torch.save({"x": x}, file)
    for where, device in (("cpu", "cpu"), (None, "cuda")):
        file.seek(0)
        found = torch.load(file, map_location=where)["x"]
        assert found.device.type == device and torch.equal(found.cpu(), x.cpu())


class _Fails(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, gradient):
        raise KeyError("planted")


@pytest.mark.parametrize(
    ("loss", "error"),
    [
        (lambda x: torch.utils.checkpoint.checkpoint(_second_time(), x, use_reentrant=False).sum(), StopIteration),
        (lambda x: _Fails.apply(x).sum(), KeyError),
    ],
)
@pytest.mark.parametrize("go_back", [lambda y, x: y.backward(), lambda y, x: torch.autograd.grad(y, x)])
def test_a_mistake_in_a_backward_pass_comes_to_its_caller(x, loss, error, go_back):
    x.requires_grad_()
    with pytest.raises(error):
        go_back(loss(x), x)
    (gradient,) = torch.autograd.grad((x * 2).sum(), x)
    assert gradient.sum().item() == 70


def _second_time():
    """A function that fails when it is called again, as a checkpoint does when it goes back."""
    once = iter([lambda x: x.sin()])
    return lambda x: next(once)(x)


def test_an_operation_that_a_card_refuses_raises_in_a_backward_pass(x, monkeypatch):
    y, refuse = (x.requires_grad_() @ x.T).sum(), raising("CUDA graphs")
    monkeypatch.setattr(dispatch, "countable", lambda name, args: name == "aten::mm" and refuse())
    with pytest.raises(CannotRehearse, match="CUDA graphs"):
        y.backward()
