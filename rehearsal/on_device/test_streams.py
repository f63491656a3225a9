"""Two streams and the host: writing what another one reads, memory that goes back too early, bools in flight."""

import pytest
import torch

from rehearsal.streams import StreamError, in_flight


@pytest.fixture
def x():
    return torch.arange(128.0, device="cuda")


@pytest.fixture
def side(x):
    """A second stream, which follows what made `x`."""
    made = torch.cuda.Stream()
    made.wait_stream(torch.cuda.current_stream())
    return made


def current():
    """The stream that works outside `with`."""
    return torch.cuda.current_stream()


WRITES = [
    lambda x: x.fill_(0),
    lambda x: x.add_(1),
    lambda x: x.copy_(torch.zeros(128)),
    lambda x: x[3:].zero_(),
    lambda x: torch.add(x, 1, out=x),
]


@pytest.mark.parametrize("write", WRITES)
def test_writing_what_another_stream_still_reads_raises(x, side, write):
    with torch.cuda.stream(side):
        x + 1  # noqa: B018
    with pytest.raises(StreamError, match=r"test_streams.py:\d+: a tensor is written while another stream"):
        write(x)


@pytest.mark.parametrize(
    "wait",
    [
        lambda side, read: current().wait_stream(side),
        lambda side, read: current().wait_event(read),
        lambda side, read: read.synchronize(),
        lambda side, read: side.synchronize(),
        lambda side, read: torch.cuda.synchronize(),
    ],
)
def test_it_may_be_written_after_a_wait(x, side, wait):
    with torch.cuda.stream(side):
        y = x + 1
    wait(side, side.record_event())
    x.fill_(0)
    assert y.sum().isfinite()


def test_an_event_before_the_read_is_no_wait_for_it(x, side):
    early = side.record_event()
    with torch.cuda.stream(side):
        x + 1  # noqa: B018
    early.synchronize()
    current().wait_event(early)
    with pytest.raises(StreamError, match="still read it"):
        x.fill_(0)


def test_the_stream_that_reads_may_write_and_a_view_reads_nothing(x, side):
    with torch.cuda.stream(side):
        (x + 1).sum()
        x.mul_(2)
    current().wait_stream(side)
    with torch.cuda.stream(side):
        x[3:].view(5, 25).T  # noqa: B018
    assert x.fill_(0).sum().item() == 0


def test_a_second_write_waits_for_the_first(x, side):
    with torch.cuda.stream(side):
        x.fill_(1)
    with pytest.raises(StreamError, match="written on another stream"):
        x.copy_(torch.zeros(128))


def test_a_copy_into_memory_of_the_host_reads_on_its_stream_too(x, side):
    with torch.cuda.stream(side):
        y = x + 1
    with pytest.raises(StreamError, match="written on another stream"):
        torch.zeros(128).copy_(y)


def test_work_from_before_the_second_stream_is_not_over(monkeypatch):
    monkeypatch.setattr(in_flight, "streams", 1)  # as in a process of its own
    x = torch.ones(128, device="cuda") + 1
    with torch.cuda.stream(torch.cuda.Stream()), pytest.raises(StreamError, match="written on another stream"):
        x + 1  # noqa: B018


def test_a_copy_that_blocks_is_over_and_one_that_does_not_is_not():
    side = torch.cuda.Stream()
    blocked, pinned = torch.ones(128).cuda(), torch.ones(128).pin_memory().to("cuda", non_blocking=True)
    with torch.cuda.stream(side):
        assert (blocked + 1).sum().item() == 256
        with pytest.raises(StreamError, match="written on another stream"):
            pinned + 1  # noqa: B018
    current().synchronize()


def test_memory_that_a_side_stream_still_reads_is_not_given_out_again(x, side):
    y = x * 2
    side.wait_stream(current())
    with torch.cuda.stream(side):
        z = y + 1
    del y
    with pytest.raises(StreamError, match="given out again.*record_stream"):
        x * 3  # noqa: B018
    current().wait_stream(side)
    assert z.sum().isfinite()


@pytest.mark.parametrize("written", ["there", "here"])
def test_so_is_memory_that_a_side_stream_still_writes(x, side, written):
    y = torch.empty(128, device="cuda")
    side.wait_stream(current())
    with torch.cuda.stream(side if written == "there" else current()):
        y.fill_(1)
    del y
    if written == "here":
        x * 3  # noqa: B018
    else:
        with pytest.raises(StreamError, match="given out again"):
            x * 3  # noqa: B018


@pytest.mark.parametrize(
    "care",
    [
        lambda y, side: y.record_stream(side),
        lambda y, side: y[3:].record_stream(side),
        lambda y, side: current().wait_stream(side),
        lambda y, side: side.synchronize(),
        lambda y, side: current().wait_event(side.record_event()),
    ],
)
def test_memory_may_go_back_when_the_side_stream_is_known(x, side, care):
    y = x * 2
    side.wait_stream(current())
    with torch.cuda.stream(side):
        y + 1  # noqa: B018
    care(y, side)
    del y
    x * 3  # noqa: B018


def test_a_stream_that_was_not_recorded_is_not_covered_by_one_that_was(x, side):
    y, other = x * 2, torch.cuda.Stream()
    side.wait_stream(current())
    with torch.cuda.stream(side):
        y + 1  # noqa: B018
    y.record_stream(other)
    del y
    with pytest.raises(StreamError, match="given out again"):
        x * 3  # noqa: B018


def test_a_wait_after_freeing_is_early_enough_and_larger_memory_is_other_memory(x, side):
    y, large = x * 2, torch.ones(1000)
    side.wait_stream(current())
    with torch.cuda.stream(side):
        kept = y + 1  # memory of the side stream's own
    del y
    large.cuda()
    with torch.cuda.stream(side):
        kept + 1  # noqa: B018
    current().wait_stream(side)
    x * 3  # noqa: B018


def test_a_backward_pass_runs_on_the_streams_of_its_forward(x, side):
    w = torch.ones(128, device="cuda", requires_grad=True)
    side.wait_stream(current())
    with torch.cuda.stream(side):
        loss = (w * x).sum()
    current().wait_stream(side)
    loss.backward()
    with torch.no_grad():
        w.sub_(w.grad)


@pytest.mark.parametrize("values", [[True] * 4, [False] * 4, [True], [False], [True, False, False]])
def test_a_bool_in_flight_is_its_opposite_until_somebody_waits(values):
    found = torch.tensor(values, device="cuda").to("cpu", non_blocking=True)
    assert found.tolist() == [not value for value in values]
    torch.cuda.synchronize()
    assert found.tolist() == values


def test_the_accelerator_is_the_card():
    assert torch.accelerator.current_accelerator() == torch.device("cuda") and torch.accelerator.is_available()
    assert torch.accelerator.current_stream() is current() and torch.accelerator.device_count() == 1
    before = torch.accelerator.memory_allocated()
    kept = torch.zeros(1024, device="cuda")
    assert torch.accelerator.memory_allocated() - before == kept.nbytes
    (rows,) = next(iter(torch.utils.data.DataLoader(torch.utils.data.TensorDataset(torch.ones(3)), pin_memory=True)))
    assert rows.is_pinned()


def test_a_stream_and_an_event_of_torch_itself_are_the_cards(x):
    side, done = torch.Stream("cuda"), torch.Event("cuda")
    side.wait_stream(current())
    with side:
        y = x + 1
        done.record()
    with pytest.raises(StreamError, match="without a wait"):
        y.sum()
    current().wait_event(done)
    assert y.sum().isfinite()
