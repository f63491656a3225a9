"""The cache equals re-running, what is saved comes back, what cannot be is refused."""

import disfl_labels as dl
import prefix_network as pn
import prefix_training as pt
import pytest
import torch
from helpers import check

DEVICES = ["cpu", pytest.param("cuda", marks=pytest.mark.skipif(
    not torch.cuda.is_available(), reason="no GPU"))]  # fmt: skip


def network(causal=False, seed=0, **sizes):
    torch.manual_seed(seed)
    return pn.PrefixNetwork(30, **({"width": 16} | sizes), causal=causal).eval()


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("length", [1, 2, 13, dl.LONGEST])
def test_the_cache_equals_a_second_reading(device, length):
    net = network(causal=True).to(device)
    ids = torch.randint(2, 30, (2, length), device=device)
    whole, cache = net(ids)[0].detach(), None
    why = "the same float32 sums in other blocks"
    for at in range(length):
        with torch.inference_mode():
            found, cache = net.step(ids[:, at : at + 1], cache, at)
        check.close(found, whole[:, at], atol=1e-5, why=why)


def test_a_causal_network_does_not_see_what_follows():
    net, ids = network(causal=True), torch.randint(2, 30, (1, 9))
    check.close(net(ids[:, :5])[0], net(ids)[0][:, :5], atol=1e-5, why="float32 blocks")


def test_a_bidirectional_network_does_and_has_no_cache():
    net, ids = network(), torch.randint(2, 30, (1, 9))
    assert (net(ids[:, :5])[0] - net(ids)[0][:, :5]).abs().max() > 1e-3
    with pytest.raises(ValueError, match="bidirectional network has no cache"):
        net.step(ids[:, :1], None, 0)


def test_unrolled_labels_equal_running_each_prefix():
    net, ids = network(causal=True), torch.randint(2, 30, (1, 13))
    both = pn.unrolled(net(ids)[0][0])
    said = torch.full((13,), torch.nan)
    for i in range(13):
        state = net(ids[:, : i + 1])[0][
            0, -1
        ]  # what the newest state says of the last BACK words
        for k in range(min(pn.BACK, i + 1)):
            said[i - k] = state[k]
        check.close(both[i, : i + 1], said[: i + 1], atol=1e-5, why="float32 blocks")
        assert torch.isinf(both[i, i + 1 :]).all()


def test_both_ways_to_final_labels_agree():
    vocabulary = dl.Vocabulary(["a", "b", "c"], 25)
    rows = [dl.fluent(list("abcabcxyz")), dl.fluent(["b"])]
    for causal in (False, True):
        net = network(causal)
        last = [[int(x > 0) for x in z[0][-1]] for z in pt.logits(net, rows, vocabulary)]
        assert last == pt.final_labels(net, rows, vocabulary)


def test_prefixes_in_blocks_equal_single_prefixes():
    vocabulary, net = dl.Vocabulary(["a", "b", "c"], 25), network()
    rows = [dl.fluent(list("abcab")), dl.fluent(list("cab")), dl.fluent(["a"])]
    found = pt.logits(net, rows, vocabulary, tokens=4)
    for row, (disfluent, wait) in zip(rows, found, strict=True):
        for end in range(1, len(row.words) + 1):
            alone = net(torch.tensor([vocabulary(row.words[:end])]))
            for got, want in zip((disfluent, wait), alone, strict=True):
                check.close(got[end - 1, :end], want[0, :, 0].detach(), atol=1e-5, why="blocks")
                assert torch.isinf(got[end - 1, end:]).all()


def test_what_is_saved_comes_back_to_eleven_bits(tmp_path):
    vocabulary = dl.Vocabulary(["a", "été"], 26)
    nets = {"one": network(), "other": network(seed=1, width=8, layers=1, heads=2)}
    pn.save(nets, vocabulary, tmp_path / "x.safetensors")
    found, words = pn.load(tmp_path / "x.safetensors")
    assert (words.words, words.buckets) == (vocabulary.words, vocabulary.buckets)
    assert list(found) == ["one", "other"]
    for name, net in nets.items():
        back = found[name]
        assert not back.causal and not back.training and back.heads == net.heads
        for key, value in net.state_dict().items():
            limit = 2**-11 * value.abs() + 1e-7  # half a step of float16
            assert ((back.state_dict()[key] - value).abs() <= limit).all(), key


@pytest.mark.parametrize("sizes", [{"width": 15}, {"width": 0}, {"layers": 0}])
def test_bad_sizes_are_refused(sizes):
    with pytest.raises(ValueError, match="multiple of heads"):
        network(**sizes)
