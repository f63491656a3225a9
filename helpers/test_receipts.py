import json
import math
import os
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest
import torch
import yaml

from helpers import bench, cards, receipts, verdicts

CLAIM = {"id": "rate", "quote": "fast", "value": 100.0, "unit": "x/s", "hardware": "one A100", "metric": "rate"}
CLAIM |= {"kind": "size", "better": "higher", "slack": 5, "tiers": ["cpu", "big"], "says": {"because": "so"}}


QUIET = {"calibration": {"before_s": 0.25, "after_s": 0.25, "unit_s": 0.25}, "busy_cores": {"before": 0.0}}
QUIET |= {"machine": {"gpu": "NVIDIA H200", "cpu": "AMD EPYC", "slug": "h200"}, "dirty": False}
QUIET |= {"date": "2026-01-02T03:04:05Z"}  # a recorded run that may decide


def claim(**changes):
    return CLAIM | changes


def metric(value, unit="x/s"):
    return {"value": value, "unit": unit}


@pytest.fixture
def chapter(tmp_path, monkeypatch):
    """A chapter's folder in a small repository, which is the current folder; receipts go to _build there."""
    monkeypatch.delenv("REBUILT_RECEIPTS", raising=False)
    monkeypatch.setattr(bench._device, "_state", type("State", (), {"tier": None})())
    home = tmp_path / "home"
    folder = home / "notebooks" / "signals" / "demo"
    folder.mkdir(parents=True)
    (home / "data").mkdir()
    (home / "_config.yml").touch()
    (home / "data" / "registry.tsv").touch()
    cells = [{"cell_type": "code", "source": ["x = 1\n", "y"], "metadata": {}, "outputs": []}]
    (folder / "demo.ipynb").write_text(json.dumps({"cells": cells, "metadata": {}}))
    (folder / "demo.py").write_text("x = 1\n")
    (folder / "demo.yml").write_text(yaml.safe_dump({"title": "Demo", "claims": [CLAIM, claim(id="b", metric="b")]}))
    monkeypatch.chdir(folder)
    return folder


@pytest.fixture
def receipt(chapter):
    return receipts.start("demo", "cpu")


def keep(chapter, name="big-h200.json", **changes):
    """Commits a receipt of another machine."""
    content = receipts.start("demo", "big").content() | {"metrics": {"rate": metric(120.0)}}
    content["machine"] |= {"gpu": "NVIDIA H200"}
    path = chapter.parents[2] / "data" / "receipts" / "demo" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content | changes))
    return path


def test_the_card_beside_the_notebook_is_found(chapter):
    assert receipts.start("demo", "cpu").card["title"] == "Demo"


def test_a_card_is_found_by_name_from_elsewhere(chapter, monkeypatch):
    monkeypatch.chdir(chapter.parents[2])
    assert receipts.start("demo", "cpu").path == chapter / "demo.yml"


def test_no_card_or_several_are_an_error(chapter, monkeypatch):
    with pytest.raises(FileNotFoundError, match="0 cards other.yml"):
        receipts.start("other", "cpu")
    twin = chapter.parent / "twin"
    twin.mkdir()
    (twin / "demo.yml").write_text("{}")
    monkeypatch.chdir(chapter.parents[2])
    with pytest.raises(FileNotFoundError, match="2 cards"):
        receipts.start("demo", "cpu")


@pytest.mark.parametrize("value", [3, 3.0, np.float32(3), torch.tensor(3.0), np.array(3)])
def test_a_number_is_recorded_with_its_unit(receipt, value):
    receipt.record("rate", value, "x/s", low=2, high=4, repeats=5, note="warm", interval="90 %")
    ends = {"low": 2.0, "high": 4.0, "interval": "90 %"}
    assert receipt.metrics["rate"] == {"value": 3.0, "unit": "x/s", "repeats": 5, "note": "warm"} | ends


@pytest.mark.parametrize("interval", [None, "95", "mean ± 2 s"])
def test_ends_need_a_name_that_says_what_they_are(receipt, interval):
    with pytest.raises(ValueError, match="metric rate: interval .* of ends 2 to 4; allowed: ..95 %"):
        receipt.record("rate", 3.0, "x/s", low=2, high=4, interval=interval)
    receipt.record("rate", 3.0, "x/s", interval="95 %")
    assert receipt.metrics["rate"] == {"value": 3.0, "unit": "x/s"}, "where there are no ends no name is kept"


def test_a_measurement_brings_its_spread(receipt):
    took, on = (
        bench.Measurement(0.5, 0.25, 1.0, (0.5,) * 7, None, "cpu"),
        {"device": "cpu", "interval": "95 %", "timing": True},
    )
    receipt.record("time", took)
    assert receipt.metrics["time"] == {"value": 0.5, "unit": "s", "low": 0.25, "high": 1.0, "repeats": 7} | on
    receipt.record("rate", took, "x/s", count=10)
    assert receipt.metrics["rate"] == {"value": 20.0, "unit": "x/s", "low": 10.0, "high": 40.0, "repeats": 7} | on
    receipt.record("rate", 20.0, "x/s", device=torch.device("cuda", 1))
    assert receipt.metrics["rate"]["device"] == "cuda:1"


def test_a_count_is_exact_and_a_clock_may_be_named(receipt):
    receipt.record("parts", 26, "tables", interval="exact")
    assert receipt.metrics["parts"] == {"value": 26.0, "unit": "tables", "interval": "exact"}
    receipt.record("took", 2.0, "loops", timing=True)
    receipt.record("smaller", 2.0, "×", timing=False)
    assert receipt.metrics["took"]["timing"] and receipt.metrics["smaller"]["timing"] is False
    with pytest.raises(ValueError, match="metric took: the words ..clock..; only count and timing"):
        receipt.record("took", 2.0, "loops", clock=True)


@pytest.mark.parametrize(("unit", "clock"), [("ms", True), ("× real time", True), ("links/s", True), ("recall", False)])
def test_a_time_that_is_recorded_as_a_bare_number_is_one_of_a_clock_by_its_unit(receipt, unit, clock):
    receipt.record("found", 2.0, unit)
    assert verdicts.timing(receipt.metrics["found"]) == clock


def test_a_rate_needs_its_unit(receipt):
    with pytest.raises(ValueError, match="unit None"):
        receipt.record("rate", bench.Measurement(0.5, 0.25, 1.0, (0.5,), None, "cpu"), count=10)


def test_a_ratio_brings_its_spread(receipt):
    receipt.record("gain", bench.Ratio(3.0, 2.0, 4.0, 20, "95 %"))
    ends = {"low": 2.0, "high": 4.0, "interval": "95 %"}
    assert receipt.metrics["gain"] == {"value": 3.0, "unit": "×", "repeats": 20, "timing": True} | ends
    receipt.record("share", bench.spread([1, 3, 2]), "%", note="of three")
    ends = {"low": 1.0, "high": 3.0, "interval": "range"}
    assert receipt.metrics["share"] == {"value": 2.0, "unit": "%", "repeats": 3, "note": "of three"} | ends
    receipt.record("again", 2, "%", 1, 3, 3, "of three", interval="range")  # as studies do
    assert receipt.metrics["again"] == receipt.metrics["share"]
    with pytest.raises(ValueError, match="unit None"):
        receipt.record("share", bench.spread([1, 3, 2]))


@pytest.mark.parametrize(
    ("name", "value", "options"),
    [
        ("rate", math.nan, {"unit": ""}),
        ("rate", -math.inf, {"unit": ""}),
        ("rate", 1.0, {}),
        ("rate", 1.0, {"unit": 5}),
        ("Rate", 1.0, {"unit": ""}),
        ("a b", 1.0, {"unit": ""}),
        ("rate", 1.0, {"unit": "", "low": 2, "high": 3, "interval": "range"}),
        ("rate", 1.0, {"unit": "", "low": math.nan, "high": 3, "interval": "range"}),
    ],
)
def test_what_is_no_measured_number_is_refused(receipt, name, value, options):
    with pytest.raises(ValueError, match="metric"):
        receipt.record(name, value, **options)
    assert receipt.metrics == {}


def test_a_receipt_is_written_and_read_again(receipt, chapter):
    receipt.record("rate", 96.0, "x/s")
    path = receipt.write()
    assert path == chapter.parents[2] / "_build" / "receipts" / "demo.cpu.json"
    content = receipts.read(path)
    assert [p.name for p in path.parent.iterdir()] == ["demo.cpu.json"]
    keys = "schema chapter notebook tier date commit dirty code machine versions seconds peak_memory_bytes metrics"
    later = "script command peers threads threads_by_library sizes curves read"
    assert set(content) == {*keys.split(), *later.split()}
    assert content["threads"] == torch.get_num_threads()
    assert (content["chapter"], content["notebook"], content["tier"]) == ("signals/demo", "demo", "cpu")
    assert content["code"] == cards.code_hash(chapter / "demo.ipynb")
    assert content["versions"]["torch"] and "versions" not in content["machine"]
    assert content["seconds"] >= 0 and (content["peak_memory_bytes"] or 1) > 0
    assert content["commit"] is None and content["dirty"] is None


def test_a_receipt_may_go_elsewhere(receipt, tmp_path, monkeypatch):
    monkeypatch.setenv("REBUILT_RECEIPTS", str(tmp_path / "mine"))
    assert receipt.write() == tmp_path / "mine" / "demo.cpu.json"


def test_the_commit_and_whether_it_was_changed(receipt, chapter):
    def git(*arguments):
        line = ["git", "-c", "user.name=a", "-c", "user.email=a@b", "-C", str(chapter), *arguments]
        return subprocess.run(line, capture_output=True, text=True, check=True).stdout.strip()

    git("init")
    git("add", ".")
    git("commit", "-m", "x", "--no-verify")
    git("tag", "v1")
    assert (receipt.content()["commit"], receipt.content()["dirty"]) == (git("rev-parse", "HEAD"), False)
    (chapter / "more.py").write_text("x = 2\n")
    assert receipt.content()["dirty"] is True, "a module that is in no commit"
    (chapter / "more.py").unlink()
    assert receipt.content()["dirty"] is False
    (chapter / "demo.py").write_text("x = 2\n")
    assert receipt.content()["dirty"] is True


def test_readers_never_see_half_a_receipt(receipt, chapter):
    for i in range(300):
        receipt.record(f"m{i}", i, "")
    path, broken, stop = receipt.write(), [], threading.Event()

    def look():
        while not stop.is_set():
            try:
                receipts.read(path)
            except ValueError as error:
                broken.append(error)

    looking = threading.Thread(target=look)
    looking.start()
    for _ in range(10):
        receipt.write()
    stop.set()
    looking.join()
    assert broken == []


BREAKAGES = {
    "cut": lambda text: text[: len(text) // 2],
    "empty": lambda text: "",
    "list": lambda text: "[]",
    "nan": lambda text: text.replace("96.0", "NaN"),
    "infinite": lambda text: text.replace("96.0", "1e999"),
    "text": lambda text: text.replace("96.0", '"96"'),
    "no unit": lambda text: text.replace('"x/s"', "null"),
    "no tier": lambda text: text.replace('"tier"', '"tear"'),
    "no value": lambda text: text.replace('"value"', '"val"'),
    "machine": lambda text: text.replace('"machine": {', '"machine": 5, "x": {'),
}


@pytest.mark.parametrize("how", BREAKAGES)
def test_a_broken_receipt_is_named(receipt, how):
    receipt.record("rate", 96.0, "x/s")
    path = receipt.write()
    path.write_text(BREAKAGES[how](path.read_text()))
    with pytest.raises(ValueError, match=f"receipt {path} is broken"):
        receipts.read(path)


# What a run was made with


def test_sizes_and_curves_are_kept(receipt):
    receipt.sizes(points=6_500_000, query=np.int64(421))
    receipt.sizes(share=np.float32(0.5))
    receipt.curve("accuracy_time", x=np.array([0.5, 1.0]), y=torch.tensor([3, 4]))
    content = receipts.read(receipt.write())
    assert content["sizes"] == {"points": 6_500_000, "query": 421, "share": 0.5}
    assert content["curves"] == {"accuracy_time": {"x": [0.5, 1.0], "y": [3, 4]}}


@pytest.mark.parametrize("value", [math.nan, math.inf, "5", None, True, [5]])
def test_a_size_is_a_finite_number(receipt, value):
    with pytest.raises(ValueError, match="size 'points' is .*; allowed are snake_case names and finite numbers"):
        receipt.sizes(points=value)
    with pytest.raises(ValueError, match="size 'Points'"):
        receipt.sizes(Points=5)
    assert receipt.content()["sizes"] == {}


@pytest.mark.parametrize(
    ("name", "columns", "told"),
    [
        ("time", {}, "at least one column"),
        ("Time", {"x": [1]}, "snake_case names"),
        ("time", {"X": [1]}, "snake_case names"),
        ("time", {"x": [1], "y": [1, 2]}, "{'x': 1, 'y': 2} rows; allowed are equal lengths from 1 to 1,000"),
        ("time", {"x": [], "y": []}, "equal lengths from 1"),
        ("time", {"x": range(1001)}, "to 1,000"),
        ("time", {"x": [1, math.nan]}, "column x: nan; allowed are finite numbers"),
        ("time", {"x": [1, "2"]}, "column x: '2'"),
    ],
)
def test_a_curve_that_no_figure_could_show_is_refused(receipt, name, columns, told):
    with pytest.raises(ValueError, match="curve") as error:
        receipt.curve(name, **columns)
    assert told in str(error.value) and receipt.curves == {}


def test_a_curve_may_have_a_thousand_rows(receipt):
    receipt.curve("time", x=range(1000))
    assert len(receipt.curves["time"]["x"]) == 1000


def test_peers_are_the_installed_ones_of_the_card(receipt):
    receipt.card |= {"packages": ["numpy==2.4.6"], "peers": ["no-such-peer==1.0", "PyYAML==6.0"]}
    assert receipt.content()["peers"] == {"numpy": np.__version__, "PyYAML": yaml.__version__}
    receipt.card |= {"packages": None, "peers": []}
    assert receipt.content()["peers"] == {}


def test_a_receipt_says_the_threads_that_the_libraries_got_whatever_was_planned(chapter):
    planned = torch.get_num_threads()
    try:
        torch.set_num_threads(3)
        assert receipts.start("demo", "cpu").content()["threads"] == 3
        found = receipts.start("demo", "cpu", threads=7).content()
        assert found["threads_by_library"]["torch"] == 3 and found["threads"] == 7
    finally:
        torch.set_num_threads(planned)


def looked_at(chapter, *files):
    """What was read since, of these files only, metrics and curves together."""
    found = receipts.start("demo", "cpu").content()["read"]
    return {name: sum(map(list, kinds.values()), []) for name, kinds in found.items() if name in files}


PICKED = {
    "by name": lambda found: found["metrics"]["a"],
    "by get": lambda found: found["metrics"].get("a"),
    "of a loop": lambda found: [one["value"] for name, one in found["metrics"].items() if name == "a"],
    "of all values": lambda found: next(iter(found["metrics"].values()))["value"],
    "of a copy made by a loop": lambda found: {name: one for name, one in found["metrics"].items()}["a"]["unit"],  # noqa: C416
    "printed": lambda found: "{value} {unit}".format(**dict(found["metrics"].items())["a"]),
    "a curve": lambda found: found["curves"]["a"]["x"],
}
NOT_LOOKED_AT = {
    "names": lambda found: [*found["metrics"], len(found["metrics"]), "a" in found["metrics"], {**found}],
    "absent": lambda found: [found["metrics"].get("c"), found["curves"].get("c", 0)],
    "a loop without numbers": lambda found: [name for name, _ in found["metrics"].items()],
}
ALL = {
    "every value of a loop": lambda found: [one["value"] for one in found["metrics"].values()],
    "spread out": lambda found: {**found["metrics"]},
    "copied": lambda found: dict(found["metrics"]),
    "joined": lambda found: {} | found["metrics"],
    "written": lambda found: json.dumps(found["metrics"]),
}


@pytest.fixture
def two(chapter, monkeypatch):
    """A recorded receipt with two metrics and two curves, nothing of it read yet."""
    monkeypatch.setattr(receipts._records, "_looked_at", {})
    path = keep(chapter)
    both = {"a": {"value": 1.0, "unit": "s"}, "b": {"value": 2.0, "unit": "s"}}
    path.write_text(
        json.dumps(json.loads(path.read_text()) | {"metrics": both, "curves": {"a": {"x": [1]}, "b": {"x": [2]}}})
    )
    return f"demo/{path.name}"


@pytest.mark.parametrize("way", [*PICKED, *NOT_LOOKED_AT, *ALL])
def test_a_run_notes_which_recorded_metrics_and_curves_it_looks_at(chapter, two, way):
    (PICKED | NOT_LOOKED_AT | ALL)[way](receipts.recorded("demo"))
    wanted = ["a"] if way in PICKED else ["a", "b"] if way in ALL else []
    assert looked_at(chapter, two).get(two, []) == wanted


def test_a_replay_looks_at_what_it_shows(chapter, two):
    receipts.replay("demo", "b")
    assert looked_at(chapter, two) == {two: ["b"]}
    receipts.replay("demo")
    assert looked_at(chapter, two) == {two: ["a", "b"]}


def test_what_is_noted_is_like_what_was_recorded(chapter, two):
    plain = json.loads((chapter.parents[2] / "data/receipts" / two).read_text())
    plain["name"] = receipts.recorded("demo")["name"]
    found = receipts.recorded("demo")
    assert found == plain and json.loads(json.dumps(found)) == plain and list(found["metrics"]) == ["a", "b"]
    assert [*found["metrics"].items()] == [*plain["metrics"].items()]
    with pytest.raises(KeyError):
        found["metrics"]["c"]


def test_threads_are_torchs_unless_given(chapter):
    assert receipts.start("demo", "cpu", threads=7).content()["threads"] == 7
    assert receipts.start("demo", "cpu").content()["threads"] == torch.get_num_threads()


@pytest.mark.parametrize(
    ("words", "want"),
    [
        (["/opt/bin/python3", "-m", "ctc.bench_ctc", "--rounds", "20"], "python -m ctc.bench_ctc --rounds 20"),
        (["python", "/home/me/demo/bench_demo.py", "--out=/tmp/a b"], "python bench_demo.py '--out=a b'"),
        (["python", "-m", "x", "spark://host:7077/a"], "python -m x spark://host:7077/a"),
        (["python", "-m", "ipykernel_launcher", "-f", "/tmp/k.json"], "notebook demo.ipynb"),
    ],
)
def test_the_command_names_no_folder_of_this_machine(receipt, monkeypatch, words, want):
    monkeypatch.setattr(sys, "orig_argv", words)
    assert receipt.content()["command"] == want


def test_a_named_receipt_lies_beside_the_notebooks_own(receipt):
    assert receipt.write("ctc").name == "demo.cpu.ctc.json"
    assert receipt.write().name == "demo.cpu.json"
    with pytest.raises(ValueError, match=r"a receipt's name is '../x'; allowed are small letters"):
        receipt.write("../x")


def test_older_receipts_without_the_later_keys_are_read(chapter):
    path = keep(chapter)
    old = json.loads(path.read_text())
    for key in ("script", "command", "peers", "threads", "sizes", "curves"):
        del old[key]
    path.write_text(json.dumps(old))
    assert receipts.read(path) == old
    assert receipts.recorded("demo", "rate").items() >= old.items() and receipts.recorded("demo", curve="time") is None


@pytest.mark.parametrize(
    "changes",
    [
        {"sizes": []},
        {"sizes": {"points": "many"}},
        {"curves": {"time": {"x": [1], "y": []}}},
        {"curves": {"time": {"x": 5}}},
        {"load": 3},
        {"peers": ["numpy"]},
        {"command": ["python"]},
    ],
)
def test_later_keys_are_checked_where_they_are_there(chapter, changes):
    path = keep(chapter, **changes)
    with pytest.raises(ValueError, match="is broken"):
        receipts.read(path)


def test_the_newest_recorded_run_that_has_it_is_found(chapter):
    curves = {"time": {"x": [1, 2]}}
    keep(chapter, name="a.json", date="2026-01-01T00:00:00Z", curves=curves)
    keep(chapter, name="b.json", date="2026-01-02T00:00:00Z", curves=curves, tier="cpu")
    keep(chapter, name="c.json", date="2026-01-03T00:00:00Z", metrics={})
    assert receipts.recorded("demo")["date"][:10] == "2026-01-03"
    assert receipts.recorded("demo", metric="rate")["date"][:10] == "2026-01-02"
    assert receipts.recorded("demo", curve="time", tier="big")["date"][:10] == "2026-01-01"
    assert receipts.recorded("demo", curve="other") is None and receipts.recorded("other") is None


def test_of_several_runs_of_a_race_that_of_its_threads_is_found(chapter):
    for threads, day in ((2, 1), (1, 2)):  # the one with one thread is the newer one
        name = f"cpu-x-race{'-1' * (threads == 1)}.json"
        keep(chapter, name=name, tier="cpu", date=f"2026-01-0{day}T00:00:00Z", threads=threads)
    assert receipts.recorded("demo", "rate")["threads"] == 1, "the newest"
    assert receipts.recorded("demo", "rate", threads=2)["threads"] == 2
    assert receipts.recorded("demo", "rate", threads=4) is None
    assert receipts.recorded("demo", "rate", name="race")["threads"] == 2
    assert receipts.recorded("demo", "rate", name="race-1")["threads"] == 1
    assert receipts.recorded("demo", "rate", name="race-1", threads=2) is None
    assert receipts.recorded("demo", "rate", name="ace") is None, "a name is no ending"
    assert len(receipts.committed("demo")) == 2 and len(receipts.committed("demo", "race")) == 1
    keep(chapter, name="cpu-x-few-labels.json", tier="cpu", date="2026-01-03T00:00:00Z", threads=3)
    assert receipts.recorded("demo", "rate", name="few_labels")["threads"] == 3, "a file's name has no _"
    table = receipts.replay("demo", "rate", threads=2)
    assert table.content["threads"] == 2 and repr(table).endswith(
        "tier cpu, 2026-01-01, 2 threads, other work not known."
    )
    assert ", 2026-01-02, 1 thread, " in repr(receipts.replay("demo", "rate", name="race-1"))
    assert "No run of demo at tier any with 4 threads has been" in repr(receipts.replay("demo", threads=4))


def test_a_replay_of_a_receipt_that_does_not_know_its_threads_names_none(chapter):
    keep(chapter, threads=None, date="2026-01-02T03:04:05Z")
    assert repr(receipts.replay("demo", "rate")).endswith("tier big, 2026-01-02, other work not known.")


@pytest.mark.parametrize(
    ("busy", "words"),
    [
        ({"before": 0.04, "after": 0.3}, "other work on 0.3 cores"),
        ({"before": 0.0, "after": None}, "other work on 0.0 cores"),
        ({"before": None}, "other work not known"),
        (None, "other work not known"),
    ],
)
def test_what_nobody_looked_at_is_not_told_as_quiet(chapter, busy, words):
    keep(chapter, busy_cores=busy, date="2026-01-02T03:04:05Z", threads=2)
    table = receipts.replay("demo", "rate")
    assert repr(table).endswith(f"2026-01-02, 2 threads, {words}.")
    assert receipts.where(table.content).endswith(words)


BENCH = """
import yaml
from helpers import receipts
receipt = receipts.start("demo", "cpu")
print(receipt.write("race"))
"""


def test_the_receipt_of_a_bench_is_stale_when_that_bench_or_a_module_changes(chapter):
    (chapter / "race").mkdir()
    (chapter / "race" / "__init__.py").touch()
    (chapter / "race" / "bench_demo.py").write_text(BENCH)
    path = os.pathsep.join([str(Path(receipts.__file__).parents[1]), os.environ.get("PYTHONPATH", "")])
    line = [sys.executable, "-m", "race.bench_demo", "--rounds", "3"]
    env = os.environ | {"PYTHONPATH": path}
    done = subprocess.run(line, cwd=chapter, env=env, capture_output=True, text=True)
    content, notebook = receipts.read(done.stdout.strip()), chapter / "demo.ipynb"
    assert content["script"] == "race/bench_demo.py"
    assert content["command"] == "python -m race.bench_demo --rounds 3"
    assert content["peers"] == {"PyYAML": yaml.__version__}, "what the bench itself imported"
    notebook.write_text('{"cells": []}')
    (chapter / "demo.yml").write_text("title: Other")
    (chapter / "bench_other.py").write_text("x")
    assert not receipts.stale(content, notebook), "words and other races do not count"
    (chapter / "race" / "bench_demo.py").write_text(BENCH + "print()\n")
    assert receipts.stale(content, notebook)
    (chapter / "race" / "bench_demo.py").write_text(BENCH)
    (chapter / "demo.py").write_text("x = 2\n")
    assert receipts.stale(content, notebook)


# The claims and the replay


def test_claims_say_first_what_was_found_then_what_was_measured(receipt):
    receipt.record("rate", 96.0, "x/s", low=95, high=99, interval="95 %", repeats=20)
    css, head, rows, caption = receipt.claims().table()
    assert (css, len(head)) == ("claims", 5)
    measured = "96 x/s (95 to 99 x/s, 95 % interval, n = 20)"
    assert rows[0] == ("holds here (same kind)", "“fast”", "100 x/s", measured, "this run")
    assert rows[1][0].startswith("not measured") and rows[1][3:] == ("–", None)
    assert caption == "1 holds here, 1 not measured."
    assert '<table class="rebuilt-claims" tabindex="0">' in receipt.claims()._repr_html_()


def test_a_card_without_claims_makes_an_empty_table(receipt):
    receipt.card["claims"] = None
    assert receipt.claims().table()[2:] == ([], "No claims.")


def test_a_recorded_run_that_the_card_names_decides_until_the_code_changes(receipt, chapter):
    ends = {"low": 110.0, "high": 130.0, "interval": "95 %", "repeats": 20}
    keep(chapter, name="big-h200-race.json", metrics={"rate": metric(120.0) | ends}, **QUIET)
    receipt.card["claims"] = [claim(run="race")]
    receipt.record("rate", 1.0, "x/s")
    (row,) = receipt.claims().table()[2]
    assert row[0] == "holds here (same kind)" and row[4] == "recorded: NVIDIA H200, tier big, 2026-01-02"
    (chapter / "demo.py").write_text("x = 2\n")
    assert receipt.claims().table()[2][0][0] == "not measured (same kind)"


@pytest.mark.parametrize(
    "disturbed", [{"busy_cores": {"during": 0.9}}, {"busy_cores": {}}, {"calibration": {}}, {"dirty": True}]
)
def test_a_recorded_race_that_was_disturbed_decides_no_claim_in_a_notebook_either(receipt, chapter, disturbed):
    ends = {"low": 110.0, "high": 130.0, "interval": "95 %", "repeats": 20}
    keep(chapter, name="big-h200-race.json", metrics={"rate": metric(120.0) | ends}, **QUIET | disturbed)
    receipt.card["claims"] = [claim(run="race")]
    (row,) = receipt.claims().table()[2]
    assert row[0] == "not measured (same kind)" and row[3].startswith("120 x/s")


def test_a_recorded_race_in_a_slow_phase_of_its_machine_decides_none_either(receipt, chapter):
    ends = {"low": 110.0, "high": 130.0, "interval": "95 %", "repeats": 20}
    keep(chapter, name="big-h200-race.json", metrics={"rate": metric(120.0) | ends}, **QUIET)
    other = keep(chapter, **QUIET | {"calibration": {"before_s": 0.1, "after_s": 0.1, "unit_s": 0.25}})
    receipt.card["claims"] = [claim(run="race")]
    assert receipt.claims().table()[2][0][0] == "not measured (same kind)"
    home = other.parent.with_name("another_chapter")
    home.mkdir()
    other.rename(home / other.name)
    assert receipt.claims().table()[2][0][0] == "not measured (same kind)", "whatever chapter ran it faster"
    (home / other.name).unlink()
    assert receipt.claims().table()[2][0][0] == "holds here (same kind)"


def test_the_book_s_calibrations_are_looked_at_once_however_many_runs_there_are(receipt, chapter, monkeypatch):
    for day in range(1, 9):
        keep(chapter, name=f"{day}.json", **QUIET | {"date": f"2026-01-0{day}T03:04:05Z"})
    looked = []
    monkeypatch.setattr(verdicts, "slownesses", lambda calibration: looked.append(calibration) or [1.0])
    receipt.claims()
    assert len(looked) == 8 + 2 * 8, "all of them once, then each run's own: is it known, is it slow"


def test_a_cpu_tier_on_a_gpu_machine_names_the_cpu(chapter):
    keep(chapter, name="cpu-h200.json", tier="cpu", machine={"gpu": "NVIDIA H200", "cpu": "AMD EPYC"})
    assert "AMD EPYC, tier cpu" in repr(receipts.replay("demo"))


def test_a_replay_is_labelled_and_the_newest_one(chapter):
    keep(chapter, name="old.json", date="2025-01-01T00:00:00Z", metrics={"rate": metric(1.0)})
    keep(chapter, date="2026-01-02T03:04:05Z", threads=3, busy_cores={"before": 0.1})
    keep(chapter, name="cpu.json", tier="cpu", date="2026-02-02T03:04:05Z")
    table = receipts.replay("demo", "rate", tier="big")
    assert table.content["metrics"]["rate"]["value"] == 120
    assert "| rate | 120 x/s |" in repr(table)
    assert repr(table).endswith(
        "Recorded, not measured here: NVIDIA H200, tier big, 2026-01-02, 3 threads, other work on 0.1 cores."
    )


CELL = """
from IPython.testing.globalipapp import start_ipython
shell = start_ipython()
shell.display_formatter.active_types = shell.display_formatter.format_types  # as a notebook's
table = shell.run_cell("from helpers import receipts; receipts.replay('demo', 'rate', tier='big')").result
print(shell.display_formatter.format(table)[0]["text/html"])
"""


def test_a_cell_whose_hardware_is_missing_shows_the_recorded_run(chapter):
    keep(chapter, date="2026-01-02T03:04:05Z", threads=3, busy_cores={"before": 0.1})
    path = os.pathsep.join([str(Path(receipts.__file__).parents[1]), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(
        [sys.executable, "-c", CELL],
        cwd=chapter,
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
    )
    assert (
        "Recorded, not measured here: NVIDIA H200, tier big, 2026-01-02, 3 threads, other work on 0.1 cores.</caption>"
        in done.stdout
    ), done.stderr
    assert '<th scope="row">rate</th><td>120 x/s</td>' in done.stdout


@pytest.mark.parametrize("arguments", [("other",), ("demo", "none"), ("demo", "rate", "gpu")])
def test_where_nothing_is_recorded_a_replay_says_so(chapter, arguments):
    keep(chapter)
    table = receipts.replay(*arguments)
    assert table.content is None
    assert "not measured" in repr(table) and f"No run of {arguments[0]} at tier" in repr(table)
