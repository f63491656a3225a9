"""The losses: their reference, the fault of the printed one, and that training learns."""

from dataclasses import replace

import disfl_labels as dl
import disfluency_generator as dg
import numpy as np
import prefix_network as pn
import prefix_training as pt
import pytest
import torch
import word_stream as ws
from helpers import check
from hypothesis import given
from hypothesis import strategies as st

numbers = st.floats(-3, 3)
WORDS = [f"w{at}" for at in range(40)]
VOCABULARY = dl.Vocabulary([*WORDS, "uh", "um", "no", "sorry", "i", "mean"], 10)


def utterances(count=200, seed=0):
    rng = np.random.default_rng(seed)
    texts = [
        [WORDS[w] for w in rng.integers(40, size=rng.integers(4, 9))] for _ in range(count)
    ]
    return [dg.spoken(text, rng, {}) for text in texts]


def wait_loss_reference(
    logits: list[float], waits: list[float], labels: list[int], whole: bool, recipe: pt.Recipe
) -> float:
    """The loss of one prefix in plain Python floats, not divided by its words."""
    from math import exp, log

    total, stopped, size = 0.0, False, len(logits)
    for j, (z, g, y) in enumerate(zip(logits, waits, labels, strict=True)):
        error, s = log(1 + exp(-z if y else z)), 1 / (1 + exp(-g))
        stopped = stopped or s > 0.5
        shown, held, lag = float(not stopped), s, size - 1 - j
        if recipe.kind != "printed":
            lag += 1
            shown, held = 1 - s, s
        if recipe.kind == "logistic":
            shown, held = log(1 + exp(-g)), log(1 + exp(g))
        total += error if whole or recipe.kind != "printed" else 0
        if not whole:
            total += recipe.gamma * shown * error + recipe.latency * lag * held
    return total


@given(
    st.lists(st.tuples(numbers, numbers, st.integers(0, 1)), min_size=1, max_size=7),
    st.booleans(),
    st.sampled_from(["printed", "smooth", "logistic"]),
)
def test_the_loss_equals_its_reference(rows, whole, kind):
    recipe = pt.Recipe(kind, latency=0.2)
    logits, waits, labels = (list(part) for part in zip(*rows, strict=True))
    tensors = [torch.tensor([part], dtype=torch.float64) for part in (logits, waits, labels)]
    batch = (None, tensors[2], torch.tensor([whole]))
    fast = sum(pt.wait_loss((tensors[0], tensors[1]), batch, recipe)) * len(rows)
    slow = wait_loss_reference(logits, waits, labels, whole, recipe)
    check.close(
        fast, torch.tensor(slow, dtype=torch.float64), rtol=1e-9, atol=1e-9, why="float64"
    )


@pytest.mark.parametrize("kind", ["printed", "smooth", "logistic"])
def test_only_a_mask_with_a_slope_lets_the_error_reach_the_wait_head(kind):
    torch.manual_seed(0)
    ours, (disfluent, wait) = kind != "printed", torch.randn(2, 3, 5, requires_grad=True)
    batch = (None, torch.ones(3, 5), torch.zeros(3, dtype=torch.bool))
    _, second, late = pt.wait_loss((disfluent, wait), batch, pt.Recipe(kind))
    (got,) = torch.autograd.grad(second, wait, retain_graph=True, allow_unused=True)
    assert (got is not None and bool((got < 0).all())) == ours  # an error pulls waits up
    (f,) = torch.autograd.grad(second, disfluent, retain_graph=True, allow_unused=True)
    assert (f is None) == ours  # ours holds the error still
    (down,) = torch.autograd.grad(late, wait)
    assert (down >= 0).all() and (down > 0).any()  # the latency term pushes waits down alone


def test_the_printed_mask_stops_at_the_first_wait():
    shown, held = pt.term_weights(torch.tensor([[-1.0, 2.0, -1.0]]), "printed")
    assert shown.tolist() == [[1, 0, 0]] and (held[0] > 0.5).tolist() == [False, True, False]


def test_the_logistic_loss_is_lowest_where_the_error_costs_what_the_wait_costs():
    recipe = pt.Recipe("logistic", gamma=2.0, latency=0.3)
    labels, rows = torch.tensor([[1.0, 0, 1, 1]]), torch.tensor([[2.0, 1, -1, -3]])
    wait = torch.zeros(1, 4, requires_grad=True)
    optimiser = torch.optim.LBFGS([wait], max_iter=100)

    def loss():
        optimiser.zero_grad()
        batch = (None, labels, torch.tensor([False]))
        value = sum(pt.wait_loss((rows, wait), batch, recipe)[1:])
        value.backward()
        return value

    optimiser.step(loss)
    error = torch.nn.functional.binary_cross_entropy_with_logits(rows, labels, reduction="none")
    want = torch.log(2.0 * error / (0.3 * torch.tensor([4.0, 3, 2, 1])))
    check.close(wait.detach(), want, atol=1e-2, why="LBFGS stops near the minimum")


def test_all_prefixes_are_made_or_a_few_are_drawn():
    rows = utterances(20)
    for draws in (None, 2):
        made = list(
            pt.batches(
                rows, VOCABULARY, pt.Recipe("prefixes", draws=draws), np.random.default_rng(0)
            )
        )
        count = sum(len(ids) for ids, _, _ in made)
        assert count == sum(
            len(u.words) if draws is None else 1 + min(draws, len(u.words) - 1) for u in rows
        )
        assert sum(int(whole.sum()) for *_, whole in made) == len(rows)


def test_prefixes_carry_their_own_labels():
    row = dl.Utterance(("uh", "w1", "w2"), (1, 0, 0), ("edit", "fluent", "fluent"))
    recipe = pt.Recipe("prefixes", draws=None)
    for ids, labels, whole in pt.batches([row], VOCABULARY, recipe, np.random.default_rng(0)):
        assert ids.tolist() == [VOCABULARY(row.words)[: ids.shape[1]]]
        assert labels.tolist() == [list(row.labels[: ids.shape[1]])]
        assert whole.tolist() == [ids.shape[1] == 3]


def test_renaming_keeps_repetitions():
    torch.manual_seed(0)
    ids = torch.tensor([[5, 6, 5, 6, 7]])
    for _ in range(20):
        got = pt.renamed(ids, 20, 0.9)
        assert got[0, 0] == got[0, 2] and got[0, 1] == got[0, 3] and (got >= 2).all()
    assert torch.equal(pt.renamed(ids, 20, 0.0), ids)


@pytest.mark.parametrize(("kind", "epochs"), [("prefixes", 8), ("logistic", 8), ("causal", 24)])
def test_training_finds_fillers(kind, epochs):
    rows = utterances(150)
    torch.manual_seed(0)
    net = pn.PrefixNetwork(len(VOCABULARY), 16, 1, 2, causal=kind == "causal")
    recipe = pt.Recipe(kind, epochs, 1, rate=2e-2, batch=128, dropout=0.0)
    means = pt.train(net, rows, VOCABULARY, recipe)
    assert means[-1] < 0.7 * means[0]
    told = [  # "uh" and "um" are known when they arrive: the newest word of each prefix
        float(disfluent[at, at] > 0)
        for u, (disfluent, _) in zip(rows, pt.logits(net, rows, VOCABULARY), strict=True)
        for at, word in enumerate(u.words)
        if word in ("uh", "um")
    ]
    assert np.mean(told) > 0.8


@pytest.mark.parametrize(("kind", "waits"), [("printed", False), ("logistic", True)])
def test_only_a_loss_with_a_slope_teaches_to_wait(kind, waits):
    torch.manual_seed(0)
    net, rows = pn.PrefixNetwork(len(VOCABULARY), 16, 1, 2), utterances(150)
    for part in net.wait.parameters():
        torch.nn.init.zeros_(part)
    pt.train(net, rows, VOCABULARY, pt.Recipe(kind, 2, 2, rate=2e-2, batch=128, latency=0.05))
    found = [ws.predictions(z, None) for z in pt.logits(net, rows[:40], VOCABULARY)]
    assert any(x is None for told in found for row in told for x in row) == waits


@pytest.mark.parametrize("new_head", [False, True])
def test_without_a_price_the_printed_loss_leaves_the_wait_head_as_it_began(new_head):
    recipe = pt.Recipe("printed", 2, 2, batch=128, latency=0.0, new_head=new_head)
    net = pn.PrefixNetwork(len(VOCABULARY), 16, 1, 2)
    torch.manual_seed(5)  # the seed of the training, which draws the head first
    torch.nn.Linear.reset_parameters(net.wait)
    began = net.wait.weight.detach().clone() if new_head else torch.zeros(1, 16)
    for part in net.wait.parameters():
        torch.nn.init.zeros_(part)
    pt.train(net, utterances(40), VOCABULARY, recipe, seed=5)
    check.close(net.wait.weight.detach(), began, rtol=1e-3, why="weight decay alone")


def test_utterances_are_drawn_anew_for_each_epoch():
    seen, rows = [], utterances(6)

    def loss(network, batch, recipe):
        seen.append(batch[0].tolist())
        return sum(part.square().sum() for part in network.parameters())

    def drawn(rng):
        seen.append("anew")
        return [rows[at] for at in rng.permutation(6)[:2]]

    net = pn.PrefixNetwork(len(VOCABULARY), 16, 1, 2)
    pt.train(net, drawn, VOCABULARY, pt.Recipe("full", 3, dropout=0.0), loss=loss)
    epochs = " ".join(map(str, seen)).split("anew")[1:]
    assert len(epochs) == 3 == len(set(epochs))


def test_the_rate_falls_in_a_line_to_zero_and_long_gradients_are_cut(monkeypatch):
    rates, norms, step = [], [], torch.optim.AdamW.step

    def watched(self, *given):
        (group,) = self.param_groups
        rates.append(group["lr"])
        grads = [one.grad for one in group["params"] if one.grad is not None]
        norms.append(torch.stack([one.norm() for one in grads]).norm().item())
        return step(self, *given)

    def steep(network, batch, recipe):
        return 1000 * pt.loss_of(network, batch, recipe)

    monkeypatch.setattr(torch.optim.AdamW, "step", watched)
    net, rows = pn.PrefixNetwork(len(VOCABULARY), 16, 1, 2), [dl.fluent(WORDS)] * 8
    recipe = pt.Recipe("full", 3, rate=1e-4, batch=80)  # four steps an epoch
    pt.train(net, rows, VOCABULARY, recipe, loss=steep)
    np.testing.assert_allclose(rates, 1e-4 * (12 - np.arange(12)) / 12)
    np.testing.assert_allclose(norms, 1, rtol=1e-3)


def test_seeds_repeat_a_training():
    found = []
    for _ in range(2):
        torch.manual_seed(0)
        net = pn.PrefixNetwork(len(VOCABULARY), 16, 1, 2)
        found.append(pt.train(net, utterances(30), VOCABULARY, pt.Recipe(epochs=1), seed=5))
    assert found[0] == found[1]


def test_pretraining_learns_words_without_labels():
    torch.manual_seed(0)
    net = pn.PrefixNetwork(len(VOCABULARY), 16, 1, 2)
    fixed = [dl.fluent(["w1", "w2", "w3", "w4"]), dl.fluent(["w5", "w6", "w7", "w8"])] * 100
    means = pt.pretrain(net, fixed, VOCABULARY, epochs=90)
    assert means[-1] < 0.8 * means[0]


def test_pretraining_shows_the_mask_in_the_place_of_the_word_that_is_guessed():
    shown = []

    class Watched(pn.PrefixNetwork):
        def guess_words(self, ids):
            shown.append(ids)
            return super().guess_words(ids)

    words, net = tuple(f"w{at}" for at in range(30)), Watched(len(VOCABULARY), 16, 1, 2)
    pt.pretrain(net, [dl.fluent(words)] * 200, VOCABULARY, epochs=1)
    ids = torch.cat(shown)
    plain, hidden = torch.tensor(VOCABULARY(words)), ids == 1
    assert hidden.any(1).all() and 0.12 < hidden.float().mean() < 0.18
    assert torch.equal(ids, torch.where(hidden, 1, plain))


def test_a_share_of_the_words_becomes_others_while_training():
    seen = []

    def loss(network, batch, recipe):
        seen.append(batch[0])
        return sum(part.square().sum() for part in network.parameters())

    net, rows = pn.PrefixNetwork(len(VOCABULARY), 16, 1, 2), [dl.fluent(WORDS)] * 99
    for share in (0.5, 0.0):
        seen.clear()
        recipe = pt.Recipe("full", 1, batch=40, dropout=share)
        pt.train(net, rows, VOCABULARY, recipe, loss=loss)
        moved = torch.cat(seen) != torch.tensor(VOCABULARY(WORDS))
        assert moved.float().mean().item() == pytest.approx(share, abs=0.05)


def test_pretraining_hides_a_word_also_of_one_word():
    net = pn.PrefixNetwork(len(VOCABULARY), 16, 1, 2)
    assert np.isfinite(pt.pretrain(net, [dl.fluent(["w1"])] * 9, VOCABULARY, epochs=3)).all()


def test_the_causal_loss_is_over_each_words_labels_by_the_states_behind_it():
    torch.manual_seed(0)
    net = pn.PrefixNetwork(len(VOCABULARY), 16, 1, 2, causal=True)
    ids, labels = torch.randint(2, 40, (2, 11)), torch.randint(2, (2, 11)).float()
    whole, found = torch.ones(2, dtype=torch.bool), net(ids)[0]
    slow = sum(
        torch.nn.functional.binary_cross_entropy_with_logits(found[b, i, k], labels[b, i - k])
        for b in range(2)
        for i in range(11)
        for k in range(min(pn.BACK, i + 1))
    )
    fast = pt.loss_of(net, (ids, labels, whole), pt.Recipe("causal"))
    check.close(fast, slow / (pn.BACK * 22), atol=1e-6, why="float32 in another order")


def test_a_student_gets_the_teachers_labels():
    net = pn.PrefixNetwork(len(VOCABULARY), 16, 1, 2).eval()
    texts = [("w1", "uh", "w2"), ("w3",)]
    rows = pt.self_labelled(net, texts, VOCABULARY)
    assert [u.words for u in rows] == texts
    assert [list(u.labels) for u in rows] == pt.final_labels(net, rows, VOCABULARY)


def test_unknown_kinds_and_long_utterances_are_refused():
    net = pn.PrefixNetwork(len(VOCABULARY), 16, 1, 2)
    with pytest.raises(ValueError, match="printed, smooth, logistic are allowed"):
        pt.train(net, [], VOCABULARY, pt.Recipe("hard"))
    long = replace(dl.fluent(["a"] * 97))
    with pytest.raises(ValueError, match="1 to 96"):
        list(pt.batches([long], VOCABULARY, pt.Recipe(), np.random.default_rng(0)))


# What is shown of logits


def logits(disfluent, wait):
    return torch.tensor(disfluent, dtype=torch.float32), torch.tensor(wait, dtype=torch.float32)


TWO = logits([[1, -9, -9], [1, -1, -9], [-1, 1, 1]], [[1, -9, -9], [-1, 1, -9], [1, 1, 1]])


def test_the_wait_head_answers_left_of_the_first_wait_and_in_full_at_the_end():
    assert ws.predictions(TWO, None) == [[None], [1, None], [0, 1, 1]]


def test_a_dearer_wait_is_taken_less_often():
    waits = [[-0.5, -9, -9], [-0.5, 0.5, -9], [0, 0, 0]]
    both = logits([[1, -9, -9], [1, 1, -9], [1, 1, 1]], waits)
    assert ws.predictions(both, None) == [[1], [1, None], [1, 1, 1]]
    assert ws.predictions(both, None, price=2.0) == [[1], [1, 1], [1, 1, 1]]
    assert ws.predictions(both, None, price=0.5) == [[None], [None, None], [1, 1, 1]]
    for price in (0, -1, float("nan")):
        with pytest.raises(ValueError, match="above 0"):
            ws.predictions(both, None, price)


def test_look_ahead_keeps_the_newest_words_back_until_the_end():
    assert ws.predictions(TWO, 0) == [[1], [1, 0], [0, 1, 1]]
    assert ws.predictions(TWO, 1) == [[None], [1, None], [0, 1, 1]]
    assert ws.predictions(TWO, 9) == [[None], [None, None], [0, 1, 1]]
    with pytest.raises(ValueError, match="0 or more"):
        ws.predictions(TWO, -1)


def test_the_floor_finds_fillers_and_repeats_over_fillers():
    said = ["i", "want", "uh", "i", "want", "the", "the", "no", "sorry", "red", "one"]
    assert ws.filler_floor(said) == [1, 1, 1, 0, 0, 1, 0, 1, 1, 0, 0]
    assert ws.floor_predictions(["uh", "uh"]) == [[1], [1, 1]]
    for size, found in ((3, 3), (4, 4), (5, 0)):
        assert sum(ws.filler_floor([*"abcde"[:size], "um", *"abcde"[:size]])) == found + 1


def test_the_nearest_question_shares_rare_words_and_none_is_near_unknown_ones():
    texts = [("who", "won"), ("who", "lost"), ("when", "did", "it", "end")]
    asked = [("when", "end"), ("who", "won"), ("nothing",), ("who", "lost", "nothing")]
    assert ws.nearest(texts, asked).tolist() == [2, 0, -1, 1]


def test_pairs_of_words_count_beside_words():
    assert ws.nearest(
        [("b", "a", "c"), ("a", "b", "c")], [("a", "b"), ("b", "a")]
    ).tolist() == [1, 0]


def test_a_rare_word_counts_more_than_two_frequent_ones():
    texts = [("the", "of", "in", name) for name in ("x", "y", "z")]
    texts += [("big", "otter"), *[("big", name) for name in ("r", "s", "t", "u")]]
    texts += [("big", "the"), ("the", "zebra")]
    assert texts[ws.nearest(texts, [("big", "zebra")])[0]] == ("the", "zebra")
