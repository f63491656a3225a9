"""Receipts from readers: good ones pass, each kind of bad one is refused with its reason; what a reader is told."""

import json
import re
import subprocess

import pytest
import yaml

from helpers import bench as spreads
from helpers import cards
from press import PressError, gates, incoming, race, run
from press.cli import main
from press.repository import HOME, Repository

T4 = {"cpu": "Intel Xeon", "gpu": "Tesla T4", "gpus": 1, "gpu_memory_bytes": 15_835_660_288, "slug": "tesla-t4"}
NAME = "gpu-tesla-t4.json"


def content_of(small, **changed):
    """A good receipt of the small book's chapter from a T4."""
    (chapter,) = small.repository.chapters
    found = {"schema": 1, "chapter": f"{chapter.part}/{chapter.folder}", "notebook": chapter.stem, "tier": "gpu"}
    found |= {"date": "2026-05-01T10:00:00Z", "code": cards.code_hash(chapter.notebook), "machine": T4, "versions": {}}
    found |= {"command": "notebook moving_mean.ipynb", "sizes": {"points": 7}, "script": None}
    found |= {"metrics": {"mean_rate": {"value": 2e9, "unit": "points/s", "device": "cuda"}}}
    return found | changed


def found_in(small, content, name=NAME, folder="moving_mean"):
    """What is wrong with a receipt, put into its place."""
    path = small.write(f"data/receipts/{folder}/{name}", json.dumps(content))
    return incoming.problems(small.repository, path)


def metric(**changed):
    """The metrics of a receipt with one changed."""
    return {"mean_rate": {"value": 2e9, "unit": "points/s", "device": "cuda"} | changed}


def test_a_good_receipt_passes_the_gate_too(small):
    assert found_in(small, content_of(small)) == []
    assert gates.load()["receipts"].problems(small.repository) == []


def test_a_version_is_no_address_of_the_network(small):
    assert found_in(small, content_of(small, versions={"driver": "31.0.15.4601"})) == []


def test_a_study_has_a_name_of_its_own(small):
    race = content_of(small, script="bench_mean.py", metrics={"other_rate": {"value": 1.0, "unit": "points/s"}})
    race |= {"code": cards.code_hash(small.repository.chapters[0].notebook, "bench_mean.py")}
    assert found_in(small, race, "gpu-tesla-t4-lengths.json") == []


BAD = {
    "no JSON": ("{", "Expecting"),
    "a missing key": ({"code": None}, "code: None is not of type 'string'"),
    "an unknown key": ({"user": "me"}, "'user' was unexpected"),
    "another schema": ({"schema": 2}, "schema: 1 was expected"),
    "another notebook": ({"notebook": "other"}, "notebook other, and lies with moving_mean"),
    "a date to come": ({"date": "2098-05-01T10:00:00Z"}, "which is to come"),
    "no date": ({"date": "2026-13-32T10:00:00Z"}, "which is no date"),
    "not a number": ({"metrics": metric(value=float("nan"))}, "not JSON compliant"),
    "a value outside its spread": ({"metrics": metric(low=3e9, high=4e9)}, "in order"),
    "no time": ({"metrics": metric(value=0.0)}, "a time or a rate is above zero"),
    "another unit": ({"metrics": metric(unit="s")}, "its claim is in 'points/s'"),
    "no metric": ({"metrics": {}}, "non-empty"),
    "no metric of the card": ({"metrics": {"else_rate": {"value": 1.0, "unit": "points/s"}}}, "no claim of the card"),
    "an odd device": ({"metrics": metric(device="tpu")}, "does not match"),
    "a tier without its GPU": ({"machine": {"cpu": "x", "gpu": None, "slug": "tesla-t4"}}, "machine has no GPU"),
    "a small card as a big one": ({"tier": "big"}, "40 GB are asked for"),
    "the pretended device": ({"machine": T4 | {"gpu": "Pretended CUDA device (no GPU)"}}, "the pretended one"),
    "a path": ({"command": "python /home/ada/book/bench.py"}, "a path of somebody's machine: 'python /home/ada"),
    "a path of Windows": ({"command": "C:\\Users\\ada"}, "a path of somebody's machine"),
    "an address of mail": ({"metrics": metric(note="ask ada@example.org")}, "an address of mail"),
    "a path among versions": ({"versions": {"torch": "2.13 @ /home/ada/torch"}}, "a path of somebody's machine"),
    "mail among peers": ({"peers": {"stumpy": "1 by ada@example.org"}}, "an address of mail"),
    "another card's name": ({"machine": T4 | {"gpu": "NVIDIA A10"}}, "called tesla-t4, and its GPU is NVIDIA A10"),
    "no name of the machine": ({"machine": {key: T4[key] for key in T4 if key != "slug"}}, "'slug' is a required"),
    "no name of a commit": ({"code": "1" * 64, "commit": "HEAD", "dirty": False}, "commit: 'HEAD' does not match"),
    "an address of the network": ({"command": "run --host 10.1.2.3"}, "an address of the network"),
    "code that nobody has": ({"code": "1" * 64, "commit": "a" * 40, "dirty": False}, "neither today's nor"),
    "code not committed": ({"code": "1" * 64, "commit": "a" * 40, "dirty": True}, "changed and not committed"),
}


@pytest.fixture
def history(small):
    """The small book as a repository with a history."""
    for command in ("init -q", "add -A", "-c user.name=a -c user.email=a@b.c commit -qm one"):
        subprocess.run(["git", "-C", str(small.root), *command.split()], check=True, capture_output=True)
    return small


@pytest.mark.parametrize("kind", BAD)
def test_a_bad_receipt_is_refused_with_its_reason(history, kind):
    changed, says = BAD[kind]
    content = content_of(history)
    tier = changed.get("tier", "gpu") if isinstance(changed, dict) else "gpu"
    name = f"{tier}-tesla-t4.json"
    if isinstance(changed, str):
        wrong = incoming.problems(history.repository, history.write(f"data/receipts/moving_mean/{name}", changed))
    else:
        wrong = found_in(history, content | changed, name)
    assert [line for line in wrong if says in line], wrong


@pytest.mark.parametrize(("study", "refused"), [({}, True), ({"study": {"name": "cameras"}}, False)])
def test_a_study_s_minutes_may_be_a_loss_and_a_race_s_may_not(small, study, refused):
    """What a study records is of its model: an arm may save minutes or lose them. A clock's time is above zero."""
    wrong = found_in(small, content_of(small, metrics={"worth_of_a": {"value": -0.5, "unit": "min"}}) | study)
    assert any("above zero" in line for line in wrong) is refused


def test_code_of_a_commit_in_this_history_is_known(history):
    commit = subprocess.run(
        ["git", "-C", str(history.root), "rev-parse", "HEAD"], capture_output=True, text=True, check=True
    ).stdout.strip()
    assert found_in(history, content_of(history, code="1" * 64, commit=commit, dirty=False)) == []


@pytest.mark.parametrize(("name", "folder"), [("t4.json", "moving_mean"), (NAME, "elsewhere")])
def test_a_receipt_lies_in_its_place_under_its_name(small, name, folder):
    assert found_in(small, content_of(small), name, folder)


def test_a_file_of_megabytes_is_refused(small):
    curve = {"x": list(range(1000))}
    content = content_of(small, curves={f"c{n}": curve for n in range(60)})
    assert "at most 200,000" in found_in(small, content)[0]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("[" * 100_000, "nested deeper"),
        ('{"seconds": NaN}', "not JSON compliant"),
        ('{"seconds": -Infinity}', "not JSON compliant"),
    ],
)
def test_what_is_no_sound_json_is_refused_and_stops_nothing(small, text, why):
    path = small.write(f"data/receipts/moving_mean/{NAME}", text)
    (told,) = incoming.problems(small.repository, path)
    assert why in told


@pytest.mark.parametrize("calibration", ["fast", {"before_s": 1e-9}, {"unit_s": "0.23"}])
def test_a_calibration_is_of_seconds(small, calibration):
    assert found_in(small, content_of(small, calibration=calibration))
    assert found_in(small, content_of(small, calibration={"before_s": 0.3, "after_s": 0.3, "unit_s": 0.23})) == []


def test_what_the_machine_was_like_is_kept_and_what_is_not_known_is_null(small):
    known = {"before": 0.1, "after": 0.0, "during": 0.02}
    speed = {"before_s": 0.3, "after_s": None, "unit_s": 0.23, "gain_before": 1.9, "gain_after": None}
    own = {"busy_cores": known | {"after": None}, "steal": known | {"during": None}, "calibration": speed}
    assert found_in(small, content_of(small, **own, load={"before": 0.1, "after": None})) == []
    for wrong in ({"steal": {"before": 1.1}}, {"steal": {"later": 0.1}}, {"busy_cores": {"before": -0.1}}):
        assert found_in(small, content_of(small, **wrong)), wrong


def test_ends_are_named_by_one_of_few_names_and_old_receipts_name_none(small):
    ends = {"low": 1e9, "high": 3e9}
    for name in spreads.ENDS:
        assert found_in(small, content_of(small, metrics=metric(**ends, interval=name))) == []
    assert found_in(small, content_of(small, metrics=metric(**ends))) == []
    assert found_in(small, content_of(small, metrics=metric(**ends, interval="99 %")))


def test_a_claim_about_gpus_is_not_answered_by_a_cpu(small):
    small.write_card(claims=[small.card["claims"][0] | {"runs_on": "gpu", "tiers": ["gpu"]}])
    assert "wants a GPU" in found_in(small, content_of(small, metrics=metric(device="cpu")))[0]


def test_sizes_are_those_of_the_tier(small, monkeypatch):
    monkeypatch.setattr(incoming, "sizes_of", lambda chapter: {"gpu": {"points": 9}})
    assert found_in(small, content_of(small)) == ["size points is 7; tier gpu has 9"]


def test_what_the_datasheet_does_not_allow_is_questioned(small, monkeypatch):
    class Counts:
        def metric(self, name, unit, tier):
            return [(type("", (), {"card": "Tesla T4"}), 1e9)]

    monkeypatch.setattr(incoming.kept, "read", lambda chapter: Counts())
    assert found_in(small, content_of(small)) == []
    (wrong,) = found_in(small, content_of(small, metrics=metric(value=4e9)))
    assert "4.0 times as good as was predicted for Tesla T4" in wrong and "waited for" in wrong
    other = content_of(small, metrics=metric(value=4e9), machine=T4 | {"gpu": "NVIDIA L4", "slug": "nvidia-l4"})
    assert found_in(small, other, "gpu-nvidia-l4.json") == []


RACES = {
    "python -m bench_mean --rounds 20": ({"before": 0.0, "after": 0.1}, ""),
    "python -m bench_mean --rounds 3": ({"before": 0.0, "after": None}, "gpu-tesla-t4-mean.json (3 rounds)"),
    "python -m bench_mean --rounds=30": ({"before": 0.0, "after": 1.9}, "gpu-tesla-t4-mean.json (1.9 busy cores)"),
    "python -m bench_mean": ({"before": 0.1, "after": 0.1}, "gpu-tesla-t4-mean.json (7 rounds)"),
    "python -m bench_mean --rounds=20": (None, "gpu-tesla-t4-mean.json (no load)"),
    "python -m bench_mean --rounds=21": ({"before": None}, "gpu-tesla-t4-mean.json (no load)"),
}


@pytest.mark.parametrize("command", RACES)
def test_a_race_of_few_rounds_or_beside_other_work_is_told_and_no_problem(small, capsys, command):
    busy, told = RACES[command]
    small.write("notebooks/signals/moving_mean/bench_mean.py", "")
    notebook = small.repository.chapters[0].notebook
    race = {"script": "bench_mean.py", "command": command, "busy_cores": busy, "metrics": metric(repeats=7)}
    race |= {"code": cards.code_hash(notebook, "bench_mean.py")}
    race |= {"calibration": {"before_s": 0.3, "after_s": 0.3, "unit_s": 0.2}}
    assert found_in(small, content_of(small, **race), "gpu-tesla-t4-mean.json") == []
    assert gates.load()["receipts"].problems(small.repository) == []
    said = capsys.readouterr().out
    assert told in said if told else not said
    study = race | {"script": "study_mean.py", "code": cards.code_hash(notebook, "study_mean.py")}
    assert found_in(small, content_of(small, **study), "gpu-tesla-t4-mean.json") == []
    assert gates.load()["receipts"].problems(small.repository) == [] and not capsys.readouterr().out


def test_without_a_gpu_a_reader_is_told_so(small, monkeypatch, capsys):
    monkeypatch.setattr(incoming, "machine_here", lambda repository: {"gpu": None})
    assert incoming.receipt(small.repository, None, race.Options()) == 2
    assert "torch sees no GPU here" in capsys.readouterr().out


def test_a_reader_with_a_card_is_told_what_to_send_and_where(small, monkeypatch, capsys):
    (chapter,) = small.repository.chapters
    done = []

    def notebooks(repository, names, options):
        assert options.force, "a kept run is an older one"
        done.append("notebooks")
        record = {"receipts": {"moving_mean.gpu.json": content_of(small), "x": content_of(small, tier="cpu")}}
        small.write(chapter.run_record.relative_to(small.root).as_posix(), json.dumps(record))

    monkeypatch.setattr(incoming, "machine_here", lambda repository: T4)
    monkeypatch.setattr(run, "run", notebooks)
    monkeypatch.setattr(run, "report", lambda outcomes: 0)
    monkeypatch.setattr(incoming.race, "race", lambda *_: done.append("races") or 0)
    assert incoming.receipt(small.repository, None, race.Options()) == 0
    said = capsys.readouterr().out
    assert done == ["notebooks", "races"] and "data/receipts/moving_mean/gpu-tesla-t4.json: may be sent" in said
    assert "https://github.com/example/small/issues/new?template=receipt.yml" in said
    small.write(f"data/receipts/moving_mean/{NAME}", json.dumps(content_of(small, user="me")))
    small.write("data/receipts/moving_mean/gpu-tesla-t4-odd.json", json.dumps(content_of(small, user="me")))
    assert incoming.receipt(small.repository, None, None) == 1, "one of them may not be sent"
    assert done == ["notebooks", "races", "notebooks"] and "'user' was unexpected" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("error", "status", "says"), [(race.Busy("2 cores"), 0, "no race: 2"), (PressError("pip"), 1, "races failed: pip")]
)
def test_a_busy_machine_is_no_failure_and_a_peer_that_cannot_be_installed_is(
    small, monkeypatch, capsys, error, status, says
):
    def races(*_):
        raise error

    monkeypatch.setattr(incoming.race, "race", races)
    assert incoming.raced(small.repository, None, race.Options()) == status and says in capsys.readouterr().out


def test_what_is_said_of_a_race_reaches_it(small, monkeypatch):
    said = []
    monkeypatch.setattr(incoming, "machine_here", lambda repository: T4)
    monkeypatch.setattr(run, "run", lambda *_: [])
    monkeypatch.setattr(run, "report", lambda outcomes: 0)
    monkeypatch.setattr(incoming.race, "race", lambda repository, names, options: said.append(options) or 0)
    told = ["--rounds", "30", "--threads", "4", "--bench", "ctc", "--loaded"]
    main(["--root", str(small.root), "receipt", "moving_mean", *told])
    assert said == [race.Options(rounds=30, threads=4, loaded=True, bench="ctc")]


@pytest.mark.parametrize(("size", "tier"), [(15.8e9, "gpu"), (80e9, "big")])
def test_a_first_receipt_is_measured_at_the_card_s_tier_which_auto_would_not_take(small, monkeypatch, size, tier):
    asked = []
    monkeypatch.setattr(incoming, "machine_here", lambda repository: T4 | {"gpu_memory_bytes": size})
    monkeypatch.setattr(run, "run", lambda repository, names, options: asked.append(options.tier) or [])
    monkeypatch.setattr(run, "report", lambda outcomes: 0)
    incoming.receipt(small.repository, None, None)
    assert asked == [tier]


def test_this_machine_can_be_asked():
    assert {"gpu", "slug"} <= incoming.machine_here(Repository(HOME)).keys()


def test_the_form_is_there_and_asks_for_the_receipt():
    form = yaml.safe_load((HOME / ".github/ISSUE_TEMPLATE" / incoming.FORM).read_text())
    fields = {field["id"]: field for field in form["body"] if "id" in field}
    assert fields["receipt"]["attributes"]["render"] == "json" and fields["receipt"]["validations"]["required"]
    assert all(option["required"] for option in fields["looked"]["attributes"]["options"])
    (command,) = re.findall(r"`(make receipt [^`]*)`", form["body"][0]["attributes"]["value"])
    assert "receipt:" in (HOME / "Makefile").read_text() and command.startswith('make receipt CHAPTERS="signals/')


def test_our_own_receipts_keep_the_rules():
    assert gates.load()["receipts"].problems(Repository(HOME)) == []
