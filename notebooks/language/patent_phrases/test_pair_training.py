"""Texts, kept states, batches, and that training learns what it can and leaves frozen layers
alone."""

import numpy as np
import pair_training as pt
import patent_pairs as pp
import phrase_encoder as pe
import pytest
import torch

torch.set_num_threads(1)
WORDS = ["acid", "water", "gear", "steel", "lens", "paper"]
ROW = {"context": "B08"}


@pytest.fixture(scope="module")
def small():
    """Four random layers on the real vocabulary's ids: fast, and nothing pretrained."""
    torch.manual_seed(0)
    encoder = pe.Encoder(width=32, heads=4, inner=64, layers=4)
    return encoder.eval()


@pytest.fixture(scope="module")
def pairs():
    rows = [(a, b) for a in WORDS for b in WORDS]
    made = [
        {**ROW, "id": f"{a}{b}", "anchor": a, "target": b, "score": float(a == b)}
        for a, b in rows
    ]
    return pp.pairs(made)


def test_a_bi_encoder_reads_two_texts_and_a_cross_encoder_one(pairs):
    bi, cross = (pt.texts(pairs, kind, False) for kind in pt.KINDS)
    assert (len(bi.ids), bi.uses.shape) == (len(WORDS), (36, 2))
    assert (len(cross.ids), cross.uses.shape) == (36, (36, 1))
    tokens = [pe.tokeniser().id_to_token(one) for one in cross.ids[cross.uses[1, 0]]]
    assert tokens == ["[CLS]", "acid", "[SEP]", "water", "[SEP]"]


def test_the_title_follows_the_phrases(pairs):
    made = pt.texts(pairs, "cross-encoder", True)
    tokens = [pe.tokeniser().id_to_token(one) for one in made.ids[1]]
    assert tokens == ["[CLS]", "acid", "[SEP]", "water", "[SEP]", "cleaning", "[SEP]"]


def test_other_targets_of_the_list_follow_the_title_and_never_the_pairs_own(pairs):
    made, firsts = pt.texts(pairs, "cross-encoder", True, listed=3), set()
    for row in range(len(pairs)):
        tokens = [pe.tokeniser().id_to_token(one) for one in made.ids[made.uses[row, 0]]]
        *start, rest = " ".join(tokens).split(" [SEP] ", 3)
        assert start == [f"[CLS] {pairs.anchor[row]}", pairs.target[row], "cleaning"]
        others = rest.removesuffix(" [SEP]").split(" [SEP] ")
        assert len(set(others)) == 3 and set(others) <= {*WORDS} - {pairs.target[row]}
        firsts.add(others[0])
    assert len(firsts) > 2  # drawn: in the order of the rows one of two would be first
    assert made.ends.tolist() == pt.texts(pairs, "cross-encoder", True).ends.tolist()
    short = pt.texts(pairs[np.array([0, 7])], "cross-encoder", False, listed=3)  # lists of one
    assert [len(one) for one in short.ids] == [5, 5]


def test_a_scorer_reads_the_list_that_it_is_given(small, pairs):
    scorer = pt.PairScorer(small, "cross-encoder", 2)
    bare, read = (pt.scores(scorer, pairs, True, listed) for listed in (0, 4))
    assert (np.abs(bare - read) > 1e-4).all()


def test_an_unknown_context_or_kind_is_refused(pairs):
    odd = pp.Pairs(
        pairs.id, pairs.anchor, pairs.target, np.array(["Z99"] * 36, dtype=object), pairs.score
    )
    with pytest.raises(ValueError, match="'Z99'"):
        pt.texts(odd, "bi-encoder", True)
    with pytest.raises(ValueError, match="allowed are bi-encoder and cross-encoder"):
        pt.texts(pairs, "beside", True)


def test_a_phrase_ends_with_its_own_separator(pairs):
    ends = [pt.texts(pairs, kind, True).ends[1].tolist() for kind in pt.KINDS]
    assert ends == [[3], [3, 5]]  # [CLS] water [SEP] …; [CLS] acid [SEP] water [SEP] …


@torch.inference_mode()
def test_a_cross_encoder_compares_the_two_phrases_states_in_one_text(small, pairs):
    made = pt.texts(pairs, "cross-encoder", True)
    x_TD = small(torch.tensor([made.ids[1]]))[0]
    wanted = torch.cosine_similarity(x_TD[:3].mean(0), x_TD[3:5].mean(0), dim=0)
    found = pt.scores(pt.PairScorer(small, "cross-encoder", 2), pairs[1:2], True)
    assert found.item() == pytest.approx(wanted.item(), abs=1e-6)


@torch.inference_mode()
def test_kept_states_are_those_of_each_text_alone(small):
    ids = [[101, 5, 102], [101, 6, 7, 8, 102], [101, 9, 102]]
    made = pt.Texts(ids, np.array([[3], [3], [3]]), np.arange(3)[:, None])
    x_BTD, real_BT, phrase_BST = pt.States(small, made, 2).batch(np.array([0, 1, 2]))
    assert phrase_BST.tolist() == [[[True] * 3 + [False] * 2]] * 3
    assert real_BT.tolist() == [[True] * 3 + [False] * 2, [True] * 5, [True] * 3 + [False] * 2]
    for row, one in enumerate(ids):
        alone = small.through(small.embed(torch.tensor([one])), None, 0, 2)[0]
        torch.testing.assert_close(x_BTD[row, : len(one)], alone, rtol=0, atol=1e-6)
        assert (x_BTD[row, len(one) :] == 0).all()


@torch.inference_mode()
def test_a_pair_gets_the_same_score_in_any_batch(small, pairs):
    scorer, made = pt.PairScorer(small, "bi-encoder", 2), pt.texts(pairs, "bi-encoder", True)
    states = pt.States(small, made, 2)
    whole = pt.predict(scorer, states, made.uses)
    alone = np.concatenate([pt.predict(scorer, states, made.uses[[row]]) for row in range(36)])
    np.testing.assert_allclose(whole, alone, atol=1e-6)


def test_an_untrained_bi_encoder_is_the_cosine(small, pairs):
    scorer = pt.PairScorer(small, "bi-encoder", 2)
    vectors = {word: pe.encode([word], small)[0] for word in WORDS}
    wanted = [vectors[a] @ vectors[b] for a, b in zip(pairs.anchor, pairs.target, strict=True)]
    np.testing.assert_allclose(pt.scores(scorer, pairs, False), wanted, atol=1e-6)


def test_batches_hold_every_pair_once(small):
    ids = [[101] + [5] * int(n) + [102] for n in np.random.default_rng(0).integers(1, 9, 333)]
    uses = np.arange(333)[:, None]
    states = pt.States(small, pt.Texts(ids, uses, uses), 1)
    made = pt.batches(states, uses, 8, np.random.default_rng(1))
    assert sorted(np.concatenate(made)) == list(range(333))
    spread = np.mean([np.ptp(states.lengths[rows]) for rows in made])
    assert spread < 2 < np.ptp(states.lengths)


@pytest.mark.parametrize("kind", pt.KINDS)
def test_training_learns_and_moves_the_upper_layers_only(small, pairs, kind):
    rule = {"bi-encoder": pairs.score, "cross-encoder": (pairs.target == "acid").astype(float)}[
        kind
    ]
    pairs = pp.Pairs(*(getattr(pairs, name) for name in pp.COLUMNS[:4]), rule)
    before = [weight.clone() for weight in small.state_dict().values()]
    scorer, losses = pt.fine_tuned(small, pairs, kind, False, pt.Recipe(2, 20, 12, 3e-3))
    assert losses[-1] < 0.2 * losses[0]
    assert np.corrcoef(pt.scores(scorer, pairs, False), rule)[0, 1] > 0.95
    for one, other in zip(before, small.state_dict().values(), strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=0)  # the encoder itself stays
    moved = {
        name
        for name, weight in scorer.encoder.state_dict().items()
        if not torch.equal(weight, small.state_dict()[name])
    }
    assert moved
    assert all(name.startswith(("layers.2", "layers.3")) for name in moved)


def test_the_loss_is_the_mean_squared_error(small, pairs):
    before = pt.scores(pt.PairScorer(small, "bi-encoder", 3), pairs, False)
    _, losses = pt.fine_tuned(small, pairs, "bi-encoder", False, pt.Recipe(3, 1, 36))
    assert losses == [pytest.approx(((before - pairs.score) ** 2).mean(), rel=1e-4)]


@pytest.fixture
def trained(small, pairs, monkeypatch):
    """A function: trains by a recipe on the scores, times `scale`, and calls `told` after each
    step with the optimiser's groups and the scorer."""

    def run(recipe, told, scale=1):
        kept, whole = [], pt._optimiser
        monkeypatch.setattr(
            pt, "_optimiser", lambda *asked: kept.append(whole(*asked)) or kept[0]
        )
        scorer, made = (
            pt.PairScorer(small, "bi-encoder", 3),
            pt.texts(pairs, "bi-encoder", False),
        )
        states, step = (
            pt.States(small, made, 3),
            lambda _: told(kept[0][0].param_groups, scorer),
        )
        pt.train(scorer, states, made.uses, scale * pairs.score, recipe, step)

    return run


def test_the_rate_rises_for_a_tenth_of_the_steps_and_falls_to_zero(trained):
    rates = []
    forty = pt.Recipe(3, 10, 9, 1e-3)  # steps
    trained(forty, lambda groups, _: rates.append([group["lr"] for group in groups]))
    layers, last = np.array(rates).T  # after each step: that of the next
    np.testing.assert_allclose(layers[:3], [5e-4, 7.5e-4, 1e-3])
    np.testing.assert_allclose(layers[3:], 1e-3 * (36 - np.arange(37)) / 36, atol=1e-12)
    np.testing.assert_allclose(last, 10 * layers)


def test_no_step_is_longer_than_its_clipped_gradient(trained):
    norms = []

    def told(groups, scorer):
        assert {group["weight_decay"] for group in groups} == {0.01}
        grads = [one.grad for one in scorer.parameters() if one.grad is not None]
        norms.append(torch.stack([one.norm() for one in grads]).norm().item())

    trained(pt.Recipe(3, 2, 9), told, scale=100)
    assert len(norms) == 8
    np.testing.assert_allclose(norms, 1, rtol=1e-3)


def test_the_same_seed_gives_the_same_losses(small, pairs):
    recipe = pt.Recipe(3, 2, 12, 1e-3, seed=5)
    runs = [pt.fine_tuned(small, pairs, "bi-encoder", False, recipe)[1] for _ in range(2)]
    assert runs[0] == runs[1]


def test_a_score_that_is_no_number_is_refused(small, pairs):
    odd = pp.Pairs(*(getattr(pairs, name) for name in pp.COLUMNS[:4]), np.full(36, np.nan))
    with pytest.raises(ValueError, match="36 scores are no finite number"):
        pt.fine_tuned(small, odd, "bi-encoder", False, pt.Recipe(3, 1))


def test_other_targets_change_the_features_and_a_lone_target_has_neutral_ones():
    vectors = np.eye(3)
    found = pt.with_other_targets(
        np.array([0.5, 0.1, 0.9]), vectors, [np.array([1]), np.array([0]), np.array([], int)]
    )
    np.testing.assert_allclose(found, [[0.5, 0.4, 1, 0], [0.1, -0.4, 0, 0], [0.9, 0, 0.5, 0]])


def test_a_gpu_is_used_if_there_is_one(small, pairs):
    if not torch.cuda.is_available():
        pytest.skip("needs a GPU")
    scorer, _ = pt.fine_tuned(small.cuda(), pairs, "bi-encoder", False, pt.Recipe(2, 1))
    assert scorer.last.weight.is_cuda
