"""The scripts of a room: the planner's arithmetic, and what the check of a machine sees."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from press.teach.workshop.room import planner, room_check

BUNDLE = {"memory_bytes": 3e9, "zip_bytes": 4e8, "installed_bytes": 2e9}
ROOM = Path(planner.__file__).parent


def test_seats_share_a_server_until_memory_or_cores_run_out():
    assert planner.plan(BUNDLE, 24, 8, 4, 15)["seats_a_machine"] == 2  # (8 - 2) / 3 of memory, 4 / 2 of cores
    by_memory = planner.plan(BUNDLE, 24, 32, 64, 15)
    assert (by_memory["seats_a_machine"], by_memory["machines"], by_memory["limit"]) == (10, 3, "memory")
    by_cores = planner.plan(BUNDLE, 24, 512, 16, 15)
    assert (by_cores["seats_a_machine"], by_cores["machines"], by_cores["limit"]) == (8, 3, "cores")


def test_the_network_carries_one_copy_a_machine():
    found = planner.plan(BUNDLE, 24, 8, 4, 15)
    assert found["bytes"] == 12 * 4e8
    assert found["mbit_per_s"] == pytest.approx(12 * 4e8 * 8 / 1e6 / 900)


@pytest.mark.parametrize(("seats", "memory", "said"), [(0, 8, "seats is 0"), (3, 4, "5.0 GB are needed")])
def test_impossible_rooms_are_refused(seats, memory, said):
    with pytest.raises(ValueError, match=said):
        planner.plan(BUNDLE, seats, memory, 4, 15)


@pytest.fixture
def room(tmp_path):
    """A small bundle's folder with the scripts and one file."""
    (tmp_path / "room").mkdir()
    for path in ROOM.glob("*.py"):
        (tmp_path / "room" / path.name).write_bytes(path.read_bytes())
    here = ".".join(map(str, sys.version_info[:2]))
    system = room_check.sysconfig.get_platform().replace("-", "_").replace(".", "_")
    facts = {**BUNDLE, "python": here, "platform": system, "memory_bytes": 1e6, "installed_bytes": 1e6}
    (tmp_path / "room" / "bundle.json").write_text(json.dumps(facts))
    (tmp_path / "one.txt").write_text("one")
    digest = room_check.digest(tmp_path / "one.txt")
    (tmp_path / "SHA256SUMS").write_text(f"{digest}  one.txt\n")
    return tmp_path


def check(room):
    done = subprocess.run([sys.executable, "room/room_check.py"], cwd=room, capture_output=True, text=True, timeout=60)
    return done.returncode, done.stdout


def facts(room, **changed):
    path = room / "room" / "bundle.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **changed}))


def test_a_good_machine_is_ready(room):
    status, said = check(room)
    assert status == 0 and "MEND" not in said and "1 files are whole" in said


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"python": "2.7"}, "the wheels are for 2.7"),
        ({"platform": "win_amd64"}, "on win_amd64"),
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


def test_install_refuses_another_python_before_it_makes_anything(room):
    facts(room, python="2.7")
    command = [sys.executable, "room/install.py"]
    done = subprocess.run(command, cwd=room, capture_output=True, text=True, timeout=60)
    assert done.returncode == 1 and "does not fit" in done.stderr and not (room / ".venv").exists()


def test_start_asks_for_the_installation_first(room):
    command = [sys.executable, "room/start.py"]
    done = subprocess.run(command, cwd=room, capture_output=True, text=True, timeout=60)
    assert done.returncode == 1 and "room/install.py makes it" in done.stderr
