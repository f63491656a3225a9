"""What counts have to hold: equal work, reasons where ours is behind, arithmetic that bytes allow.

That a chapter's versions answer with the same is tested in `test_same_work`, in another process, which imports torch.
"""

import pytest

from press import PressError, Repository, gates
from press.predict import counting, kept
from press.repository import HOME

BOOK = [chapter for chapter in Repository(HOME).chapters if counting.source_of(chapter)]
SOME = {"operations": 1, "bytes_moved": 0, "flops": 1000, "bytes_up": 0, "bytes_down": 0, "copies": 0, "syncs": 0}
SOME |= {"by": "shapes", "peak_bytes": 0, "waits": {}, "findings": [], "links": [], "work": []}


def part(seconds, flops=1000):
    """A part that takes so many seconds on a T4, fewer on the others, all of them for memory."""
    moved = int(320e9 * seconds)
    entry = SOME | {"flops": flops, "bytes_moved": moved, "work": [["float32", moved, flops, 1]]}
    return {"what": "it", "code": "", "tiers": dict.fromkeys(("check", "gpu", "big"), entry)}


def counts(old=False, **changed):
    """Counts that keep every rule, with other parts, `ahead` or `left_out`; `old`: of code that has changed since."""
    parts = {"ours": part(1), "naive": part(2), "broken": part(3)}
    parts |= {name: changed.pop(name) for name in list(changed) if name in parts}
    content = {"parts": {name: one for name, one in parts.items() if one}, "ahead": {}, "left_out": {}, "too_much": {}}
    found = kept.Kept(None, content | changed)
    found.__dict__["stale"] = old
    return found


def told(**changed):
    return "; ".join(kept.problems(counts(**changed)))


def test_counts_of_equal_work_with_a_broken_version_that_is_slower_pass():
    assert told() == ""


@pytest.mark.parametrize("role", ["naive", "broken"])
def test_a_version_ahead_of_ours_needs_a_sentence_and_no_other_has_one(role):
    # a tier that no page shows counts as well
    fast = {"tiers": part(3)["tiers"] | {"big": part(0.5)["tiers"]["big"]}, "what": "", "code": ""}
    assert f"{role} is predicted ahead of ours on A100 SXM 40 GB, H100 SXM 80 GB" in told(**{role: fast})
    assert told(**{role: fast, "ahead": {role: "why"}}) == ""
    assert f"AHEAD has a sentence for {role}" in told(ahead={role: "why"})


def test_rounding_is_no_lead():
    assert told(naive=part(0.995)) == "" and "naive is predicted ahead" in told(naive=part(0.98))


def test_a_broken_version_that_nobody_would_see_is_refused_or_left_out_with_a_sentence():
    assert "broken is predicted less than 1.1 times" in told(broken=part(1.05))
    assert "broken is not counted at tier gpu" in told(broken=None)
    assert told(broken=None, left_out={"broken": "why"}) == ""
    assert "LEFT_OUT has a sentence for broken, which is there" in told(left_out={"broken": "why"})
    assert "naive is not counted" in told(naive=None, left_out={"naive": "why"})


@pytest.mark.parametrize("flops", [985, 1015])
def test_a_broken_version_that_does_another_amount_of_arithmetic_is_refused(flops):
    assert f"broken does {flops:,} FLOPs at tier gpu, ours 1,000" in told(broken=part(3, flops))
    assert told(broken=part(3, 1005)) == ""


def test_a_naive_version_with_less_arithmetic_and_fewer_bytes_has_another_task():
    reason = {"ahead": {"naive": "why"}}
    assert "naive does 890 FLOPs at tier gpu, ours 1,000" in told(naive=part(0.89, 890), **reason)
    for seconds, flops in ((0.89, 900), (0.91, 890), (3, 0), (3, 5000)):
        assert told(naive=part(seconds, flops), **(reason if seconds < 0.99 else {})) == ""


def test_bytes_allow_the_arithmetic_of_products_and_convolutions():
    for n in (1, 2, 100, 5000):  # square matrices need most
        assert 2 * n**3 <= counting.most_flops("float32", 3 * n * n * 4)
        assert 8 * n**3 <= 4 * counting.most_flops("complex64", 3 * n * n * 8)
    for batch, channels, side, window in ((1, 64, 8, 27), (32, 256, 32, 9), (1, 512, 4, 27)):
        sizes = 2 * batch * channels * side**2 + window * channels**2
        forward = 2 * batch * side**2 * channels**2 * window
        assert forward <= counting.most_flops("tf32", 4 * sizes)


@pytest.mark.parametrize(
    ("kind", "size", "flops"),
    [
        ("float32", 23_680_000, 102_400_000_000),  # 800,000 links times 128, counted as 20,000² times 128
        ("bfloat16", 792_576, 9_140_428_800),  # a depthwise convolution's gradient, counted as a dense one's
    ],
)
def test_more_arithmetic_than_bytes_allow_is_refused_in_a_file_and_before_it_is_written(kind, size, flops, monkeypatch):
    impossible = part(1)
    impossible["tiers"]["gpu"] = SOME | {"work": [[kind, size, flops, 1]]}
    assert f"ours, tier gpu: an operation on {kind} has {flops:,} FLOPs" in told(ours=impossible)
    chapter = BOOK[0]
    found = {"parts": {"ours": impossible}, "metrics": {}}
    monkeypatch.setattr(counting, "counted", lambda *_: {chapter.stem: found})
    monkeypatch.setattr(counting, "write_text", lambda *_: pytest.fail("an impossible count was written"))
    with pytest.raises(PressError, match="FLOPs with"):
        counting.count(Repository(HOME), [str(chapter)])


def test_sentences_are_read_from_the_module_without_running_it(tmp_path):
    source = tmp_path / "rehearsed_it.py"
    source.write_text('import nothing_there\nAHEAD = {"naive": "one " "two"}\nMETRICS = {}\n')
    assert counting.sentences(source) == {"ahead": {"naive": "one two"}, "left_out": {}, "too_much": {}}


def problems(repository):
    return gates.load()["predictions"].problems(repository)


def test_the_gate_names_the_file_and_the_chapters_without_a_broken_version(monkeypatch, small):
    repository, (chapter,) = small.repository, small.repository.chapters
    monkeypatch.setattr(kept, "read", lambda _: counts(naive=part(0.5)))
    (problem,) = problems(repository)
    assert problem.where == f"data/predictions/{chapter.stem}.json" and "naive is predicted ahead" in problem.what
    monkeypatch.setattr(kept, "read", lambda _: counts(broken=None, left_out={"broken": "why"}))
    repository.__dict__["chapters"] = [chapter] * 4
    (problem,) = problems(repository)
    assert "4 chapters leave the broken version out" in problem.what
    repository.__dict__["chapters"] = [chapter] * 3
    assert problems(repository) == []


def test_the_gate_refuses_counts_of_code_that_has_changed_since(monkeypatch, small):
    monkeypatch.setattr(kept, "read", lambda _: counts(old=True))
    (problem,) = problems(small.repository)
    assert problem.what == "its code has changed since it was counted"
