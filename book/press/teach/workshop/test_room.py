"""The script of a room: the plan's arithmetic, and what the check of a machine sees."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from press.repository import HOME
from press.teach.workshop import room as script

BUNDLE = {"memory_bytes": 3e9, "zip_bytes": 4e8, "installed_bytes": 2e9, "wheels_bytes": 1e8, "torch_index": ""}


def test_seats_share_a_server_until_memory_or_cores_run_out():
    assert "12 machines, 2 seats each" in script.planned(BUNDLE, 24, 8, 4, 15)  # (8 - 2) / 3 of memory, 4 / 2 of cores
    by_memory = script.planned(BUNDLE, 24, 32, 64, 15)
    assert "3 machines, 10 seats each" in by_memory and "memory set the limit" in by_memory
    by_cores = script.planned(BUNDLE, 24, 512, 16, 15)
    assert "3 machines, 8 seats each" in by_cores and "cores set the limit" in by_cores


def test_the_network_carries_one_copy_a_machine():
    total, rate = 12 * 4e8, 12 * 4e8 * 8 / 1e6 / 900
    said = f"{total / 1e9:.1f} GB in all; {rate:.0f} Mbit/s copy it in 15 minutes"
    assert said in script.planned(BUNDLE, 24, 8, 4, 15)


@pytest.mark.parametrize(("seats", "memory", "said"), [(0, 8, "seats is 0"), (3, 4, "5.0 GB are needed")])
def test_impossible_rooms_are_refused(seats, memory, said):
    with pytest.raises(ValueError, match=said):
        script.planned(BUNDLE, seats, memory, 4, 15)


@pytest.fixture
def room(tmp_path):
    """A small bundle's folder with the script and one file."""
    (tmp_path / "room.py").write_bytes(Path(script.__file__).read_bytes())
    facts = {**BUNDLE, "machine": script.machine(), "memory_bytes": 1e6, "installed_bytes": 1e6}
    (tmp_path / "room.json").write_text(json.dumps(facts))
    (tmp_path / "one.txt").write_text("one")
    digest = script.digest(tmp_path / "one.txt")
    (tmp_path / "SHA256SUMS").write_text(f"{digest}  one.txt\n")
    return tmp_path


def asked(room, *command):
    """How the script's command ends in the bundle's folder."""
    command = [sys.executable, "room.py", *command]
    return subprocess.run(command, cwd=room, capture_output=True, text=True, timeout=60)


def check(room):
    done = asked(room, "check")
    return done.returncode, done.stdout


def facts(room, **changed):
    path = room / "room.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **changed}))


def test_a_good_machine_is_ready(room):
    status, said = check(room)
    assert status == 0 and "MEND" not in said and "1 files are whole" in said


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"machine": "Python 2.7 on Linux x86_64"}, "the wheels are for Python 2.7 on Linux x86_64"),
        ({"machine": "Python 3.11 on Windows AMD64"}, "on Windows AMD64"),
        ({"memory_bytes": 1e15}, "1000000.0 GB needed"),
        ({"installed_bytes": 1e18}, "1000000000.0 GB needed"),
    ],
)
def test_what_a_machine_lacks_is_told(room, change, said):
    facts(room, **change)
    status, told = check(room)
    assert status == 1 and said in told and told.count("MEND") == 1


@pytest.mark.parametrize(("spoil", "said"), [("write_text", "has changed"), ("unlink", "is missing")])
def test_a_spoiled_file_is_seen(room, spoil, said):
    path = room / "one.txt"
    path.write_text("two") if spoil == "write_text" else path.unlink()
    status, told = check(room)
    assert status == 1 and f"one.txt {said}" in told


LIGHT = {"wheels_bytes": 0, "machine": "Python 3.11, 3.12, 3.13", "torch_index": "https://example.org/cpu"}


@pytest.mark.parametrize(("version", "fits"), [((3, 10), 0), ((3, 11), 1), ((3, 12), 1), ((3, 13), 1), ((3, 14), 0)])
@pytest.mark.parametrize("system", ["Linux", "Darwin", "Windows"])
def test_without_wheels_any_system_and_any_python_of_the_book_fits(room, monkeypatch, version, fits, system):
    monkeypatch.setattr(script.sys, "version_info", (*version, 1))
    monkeypatch.setattr(script.platform, "system", lambda: system)
    name, good, told = next(script.checks(BUNDLE | LIGHT))
    assert (name, good) == ("python", bool(fits)) and told.endswith("you need Python 3.11, 3.12, 3.13")


def test_the_book_s_pythons_are_those_of_its_environment():
    made = (HOME / "environment.yml").read_text(encoding="utf-8")
    oldest, (major, newest) = ".".join(map(str, script.PYTHONS[0])), script.PYTHONS[-1]
    assert f"python>={oldest},<{major}.{newest + 1}" in made


@pytest.mark.parametrize(
    ("system", "given", "index"), [("linux", [], 1), ("darwin", [], 0), ("win32", [], 0), ("linux", ["--gpu"], 0)]
)
def test_torch_for_processors_is_asked_for_first_where_the_package_index_has_the_other(
    tmp_path, monkeypatch, system, given, index
):
    monkeypatch.delenv("TORCH_INDEX", raising=False)
    monkeypatch.setattr(script.sys, "platform", system)
    monkeypatch.setattr(script, "ROOT", tmp_path)
    (tmp_path / "requirements.txt").write_text("numpy==1\ntorch==2.0\ntorch-geometric==3\n")
    rest = ["-r", str(tmp_path / "requirements.txt")]
    first = [["--index-url", "https://example.org/cpu", "torch==2.0"]]
    assert script.asked(BUNDLE | LIGHT, given) == first * index + [rest]


def test_with_wheels_nothing_is_asked_of_a_network(tmp_path, monkeypatch):
    monkeypatch.setattr(script, "ROOT", tmp_path)
    ((first, *_),) = script.asked(BUNDLE, [])
    assert first == "--no-index"


def test_install_refuses_another_python_before_it_makes_anything(room):
    facts(room, machine="Python 2.7 on Linux x86_64")
    done = asked(room, "install")
    assert done.returncode == 1 and "does not fit" in done.stderr and not (room / ".venv").exists()


@pytest.fixture
def archive(room):
    """A set of many files in the bundle, as the one archive that it is; pip is there and does nothing, or fails."""
    (room / "suns").mkdir()
    (room / "suns" / "one.bin").write_bytes(b"one")
    made = Path(shutil.make_archive(room / "data/files/suns", "zip", room / "suns"))
    with (room / "SHA256SUMS").open("a") as sums:
        sums.write(f"{script.digest(made)}  data/files/suns.zip\n")
    python = room / script.PYTHON.relative_to(script.ROOT)
    python.parent.mkdir(parents=True)
    python.write_text('#!/bin/sh\nexit "${PIP_ENDS:-0}"\n')
    python.chmod(0o755)
    return made


@pytest.mark.skipif(os.name == "nt", reason="the interpreter is a shell script")
def test_install_unpacks_an_archive_where_the_notebooks_look(room, archive):
    done = asked(room, "install")
    assert done.returncode == 0, done.stderr
    assert (room / "_build/data/suns/one.bin").read_bytes() == b"one"


def test_install_refuses_an_archive_that_has_changed(room, archive):
    archive.write_bytes(archive.read_bytes()[:-1])
    done = asked(room, "install")
    assert done.returncode == 1 and "data/files/suns.zip has changed. Unpack the zip again" in done.stderr
    assert not (room / "_build").exists()


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere torch comes from the package index")
def test_where_the_index_of_torch_cannot_be_reached_another_way_is_told(room, archive, monkeypatch):
    monkeypatch.setenv("PIP_ENDS", "1")
    monkeypatch.setenv("TORCH_INDEX", "https://torch.invalid")
    (room / "requirements.txt").write_text("torch==1\n")
    facts(room, wheels_bytes=0)
    assert "If https://torch.invalid cannot be reached" in asked(room, "install").stderr
    assert "cannot be reached" not in asked(room, "install", "--gpu").stderr


def test_start_asks_for_the_installation_first(room):
    done = asked(room, "start")
    assert done.returncode == 1 and "room.py install makes it" in done.stderr


def test_plan_tells_or_says_what_is_wrong(room):
    assert "24 seats: " in asked(room, "plan", "--seats", "24").stdout
    done = asked(room, "plan", "--seats", "0")
    assert done.returncode == 2 and "seats is 0; it must be above 0" in done.stderr


def test_an_unknown_command_gets_the_list(room):
    done = asked(room, "begin")
    assert done.returncode == 2 and "check | install | start | plan" in done.stdout
