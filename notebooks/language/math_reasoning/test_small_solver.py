"""The model with a cache is the model without; sampling, training and text behave as said."""

import json

import pytest
import small_solver
import templated_maths as text
import torch
from small_solver import Answers, Recipe, Shape, Solver, choose, fit, sample, stream, windows

SMALL = Shape(context=48, width=16, layers=2, heads=2)


@pytest.fixture
def model():
    torch.manual_seed(0)
    made = Solver(SMALL).eval()
    with torch.no_grad():
        for one in made.parameters():  # away from the nearly flat start
            one.add_(0.2 * torch.randn_like(one))
    return made


def test_answers_with_a_shared_cache_are_recomputation(model):
    prompt, more = [3, 5, 7, 1, 2], torch.randint(0, 96, (4, 6))
    state = Answers(model, prompt, 4, 7)
    with torch.inference_mode():
        found = [state.first] + [state.step(more[:, at]) for at in range(6)]
        whole = model(torch.cat([torch.tensor([prompt] * 4), more], 1))
    wanted = whole[:, len(prompt) - 1 :].unbind(1)
    for got, want in zip(found, wanted, strict=True):
        torch.testing.assert_close(got, want, rtol=1e-4, atol=1e-4)  # sums in another order


@pytest.mark.parametrize("written", [1, 7])
def test_attention_in_two_parts_is_attention_to_both_as_one(written):
    torch.manual_seed(written)
    q, keys, values = (torch.randn(5, 2, n, 8) for n in (1, written, written))
    prompt_keys, prompt_values = 3 * torch.randn(2, 11, 8), torch.randn(2, 11, 8)
    whole = [
        torch.cat([one.expand(5, -1, -1, -1), own], 2)
        for one, own in ((prompt_keys, keys), (prompt_values, values))
    ]
    wanted = torch.nn.functional.scaled_dot_product_attention(q, *whole)
    got = small_solver.attend(q, prompt_keys.transpose(1, 2), prompt_values, keys, values)
    torch.testing.assert_close(got, wanted, rtol=1e-5, atol=1e-5)


def test_the_prompt_s_part_is_kept_once_however_many_answers_there_are(model):
    for answers in (1, 50):
        state = Answers(model, [1, 2, 3], answers, 4)
        assert all(one.numel() == 3 * SMALL.width for pair in state.shared for one in pair)
        assert all(
            one.numel() == answers * 4 * SMALL.width for pair in state.kept for one in pair
        )


def test_a_token_without_a_chance_is_never_drawn(monkeypatch):
    logits = torch.tensor([[0.0, -1e9, 0.0, -1e9]]).expand(2, -1)
    for edge, wanted in ((0.0, 0), (0.5, 2), (1 - 2**-53, 2)):
        own = torch.full((2, 1), edge, dtype=torch.float64)
        monkeypatch.setattr(torch, "rand", lambda *_, own=own, **__: own)
        assert choose(logits, 1.0).tolist() == [wanted] * 2


def test_greedy_answers_are_the_likeliest_tokens_recomputed(model):
    prompt, tokens = [9, 8, 7], []
    for _ in range(12):
        with torch.inference_mode():
            tokens.append(model(torch.tensor([prompt + tokens]))[0, -1].argmax().item())
    got = sample(model, prompt, 3, 12, end=-1, temperature=0)
    assert got == [tokens] * 3


def test_answers_end_apart_and_the_others_go_on_as_if_alone(model):
    draw = lambda: torch.Generator().manual_seed(1)  # noqa: E731
    free = sample(model, [4, 4], 16, 20, end=-1, generator=draw())
    end = free[0][3]
    got = sample(model, [4, 4], 16, 20, end=end, generator=draw())
    assert all(end not in one for one in got) and len({len(one) for one in got}) > 1
    for one in got:  # whatever was drawn, each token had a chance after those before it
        assert len(one) <= 20


def test_dropping_ended_answers_keeps_the_others_logits(model):
    state, other = Answers(model, [1, 2], 3, 5), Answers(model, [1, 2], 2, 5)
    first = torch.tensor([5, 6, 7])
    with torch.inference_mode():
        state.step(first)
        other.step(first[[0, 2]])
        state.keep(torch.tensor([True, False, True]))
        torch.testing.assert_close(
            state.step(torch.tensor([8, 9])), other.step(torch.tensor([8, 9]))
        )


def test_a_prompt_that_does_not_fit_is_refused(model):
    with pytest.raises(ValueError, match="fit"):
        Answers(model, [1] * 40, 2, 9)
    with pytest.raises(ValueError, match="fit"):
        Answers(model, [], 2, 9)
    with pytest.raises(ValueError, match="at most 48"):
        model(torch.zeros(1, 49, dtype=torch.int64))


def test_temperature_and_nucleus():
    logits = torch.log(torch.tensor([[0.5, 0.3, 0.15, 0.05]])).expand(20_000, -1)
    draw = torch.Generator().manual_seed(0)

    def shares(**given):
        return torch.bincount(choose(logits, generator=draw, **given), minlength=4) / 2e4

    torch.testing.assert_close(shares(temperature=1.0), logits[0].exp(), atol=0.015, rtol=0)
    assert shares(temperature=0)[0] == 1
    cold = (logits[0] / 0.5).softmax(-1)
    torch.testing.assert_close(shares(temperature=0.5), cold, atol=0.015, rtol=0)
    nucleus = shares(temperature=1.0, top_p=0.75)  # 0.5 and 0.3 together reach it
    torch.testing.assert_close(nucleus, torch.tensor([0.625, 0.375, 0, 0]), atol=0.015, rtol=0)


@pytest.mark.parametrize("wrong", [{"temperature": -1}, {"temperature": 1, "top_p": 0}])
def test_odd_settings_are_refused(wrong):
    with pytest.raises(ValueError, match="top_p"):
        choose(torch.zeros(1, 4), **wrong)


def test_a_line_is_learned_by_heart():
    torch.manual_seed(0)
    model = Solver(SMALL)
    tokens = stream(["Q: 1+1 A: 2\n"], 600, 0)
    fit(model, tokens, Recipe(steps=150, batch=8, window=24, rate=1e-2, warmup=5), 0)
    (got,) = sample(model, text.encode("\nQ: 1+1 A:"), 1, 8, text.END, temperature=0)
    assert text.decode(got) == " 2"


def test_streams_and_windows_are_of_the_length_that_is_said():
    tokens = stream(["ab\n", "c\n"], 100, 3)
    assert len(tokens) == 100 and set(text.decode(tokens.tolist())) == set("abc\n")
    shapes = {
        tuple(one.shape) for one in windows(tokens, Recipe(steps=3, batch=2, window=10), 0)
    }
    assert shapes == {(2, 11)}


def test_the_rate_goes_up_and_down():
    recipe = Recipe(steps=100, warmup=10, rate=1.0)
    found = [small_solver.rate(step, recipe) for step in range(100)]
    assert found[0] == 0.1 and max(found) == found[9] == 1.0 and found[-1] < 0.11


def test_no_test_question_is_in_the_training_side_and_text_round_trips():
    train, test = text.items(3000, 0, test=False), text.items(300, 0, test=True)
    assert not {one.question for one in train} & {one.question for one in test}
    assert len({one.question for one in test}) == 300
    assert {one.kind for one in test} == set(text.KINDS)
    for one in train[:50]:
        line = text.written(one)
        assert text.decode(text.encode(line)) == line
        assert (
            text.answer_of(line) == str(one.answer) == text.answer_of(text.written(one, False))
        )
        assert line.startswith(text.asked(one)) and text.written(one, False).startswith(
            text.asked(one, False)
        )
    assert text.decode(text.encode("é\t")) == "??"


def test_stripping_merges_questions_that_differ_but_for_the_control():
    assert text.stripped(r"$\frac{60}{5}+7$") == "605+7" == text.stripped("$605+7$")
    assert text.stripped("$7^{2}-3$") == "72-3" and text.stripped("$3x+5=20$") == "3x+5=20"


def test_a_plain_sum_comes_as_often_as_what_looks_like_it():
    found = text.items(8000, 0, test=False)
    alike = [one for one in found if one.kind in text.ALIKE]
    plain = sum(one.kind == "total" for one in alike) / len(alike)
    assert plain == pytest.approx(0.5, abs=0.02) and len(alike) / 8000 == pytest.approx(
        0.75, abs=0.02
    )
    for kind in ("fraction", "power", "root"):
        sums = {text.stripped(one.question) for one in found if one.kind == "total"}
        own = {text.stripped(one.question) for one in found if one.kind == kind}
        assert len(own & sums) > 0.5 * len(own)


@pytest.mark.parametrize("most", [9, 20])
def test_all_tests_are_all_and_every_number_keeps_within_what_is_said(most):
    found = text.all_tests(most)
    assert all(text.for_test(one) for one in found)
    assert len({one.question for one in found}) == len(found)
    assert {one.question for one in text.items(60, 3, test=True, most=most)} <= {
        one.question for one in found
    }
    added = [int(one.question.strip("$").split("+")[-1]) for one in found if one.kind == "root"]
    assert max(added) <= most


def test_more_test_questions_than_there_are_is_refused_and_nothing_hangs():
    with pytest.raises(ValueError, match="there are"):
        text.items(1000, 0, test=True, kinds=("root",))


def test_a_few_shots_come_before_the_question():
    one, *shots = text.items(3, 1, test=False)
    prompt = text.few_shot(shots, one)
    assert prompt == text.written(shots[0]) + text.written(shots[1]) + text.asked(one)


def test_weights_are_saved_and_loaded(tmp_path):
    from safetensors.torch import save_file

    torch.manual_seed(0)
    model = Solver(SMALL)
    save_file({n: one.half() for n, one in model.state_dict().items()}, tmp_path / "w")
    got = small_solver.load(tmp_path / "w")
    assert got.shape.layers == 2 and got.shape.context == 48
    assert json.dumps(got.shape.width) == "16"
