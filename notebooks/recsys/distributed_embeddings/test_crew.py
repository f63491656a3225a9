"""A crew works, tells its errors, keeps its limits, and leaves nobody behind."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch
from crew import Crew, CrewError


def ranks(state, number):
    """The sum over the group of rank + number, and how often this process was asked."""
    state["asked"] = state.get("asked", 0) + 1
    total = torch.tensor(torch.distributed.get_rank() + number)
    torch.distributed.all_reduce(total)
    return total.item(), state["asked"]


def fails_alone(state):
    if torch.distributed.get_rank() == 1:
        raise RuntimeError("one of us is ill")


def a_function(state):
    return lambda: None


def sleeps(state, seconds):
    time.sleep(seconds)


def gone(pids, seconds=10):
    """Whether all these processes end within a time."""
    deadline = time.monotonic() + seconds
    while any(Path(f"/proc/{pid}").exists() for pid in pids) and time.monotonic() < deadline:
        time.sleep(0.05)
    return not any(Path(f"/proc/{pid}").exists() for pid in pids)


def test_all_work_and_remember_and_are_gone_afterwards():
    with Crew(2) as crew:
        assert crew.run("test_crew:ranks", 10) == [(21, 1)] * 2
        assert crew.run("test_crew:ranks", 0) == [(1, 2)] * 2
        pids = crew.pids
    assert gone(pids)
    with pytest.raises(CrewError, match="has ended"):
        crew.run("test_crew:ranks", 1)


def test_an_error_is_told_with_its_process_and_ends_the_crew():
    crew = Crew(2)
    pids = crew.pids
    with pytest.raises(CrewError, match="(?s)process 1 failed.*one of us is ill"):
        crew.run("test_crew:fails_alone")
    assert gone(pids)


def test_an_answer_that_cannot_travel_is_an_error():
    with Crew(1) as crew, pytest.raises(CrewError, match="(?s)process 0 failed.*pickle"):
        crew.run("test_crew:a_function")


def test_who_is_too_slow_is_ended():
    crew = Crew(2)
    pids = crew.pids
    with pytest.raises(CrewError, match=r"no answer from processes \[0, 1\] within 0.3 s"):
        crew.run("test_crew:sleeps", 30, timeout_s=0.3)
    assert gone(pids)


def test_a_killed_process_is_noticed_by_the_rest():
    crew = Crew(2)
    pids = crew.pids
    os.kill(pids[0], signal.SIGKILL)
    with pytest.raises(CrewError, match="died|failed"):
        crew.run("test_crew:ranks", 1, timeout_s=20)
    assert gone(pids)


def test_a_killed_starter_leaves_nobody(tmp_path):
    text = "import time; from crew import Crew\nif __name__ == '__main__':\n"
    text += (
        "    crew = Crew(2); print(*crew.pids, flush=True); crew.run('test_crew:sleeps', 60)\n"
    )
    here = Path(__file__).parent
    script = tmp_path / "starter.py"
    script.write_text(text)
    environment = os.environ | {"PYTHONPATH": str(here)}
    command = [sys.executable, str(script)]
    starter = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment)
    pids = [int(one) for one in starter.stdout.readline().split()]
    starter.kill()
    starter.wait(10)
    assert len(pids) == 2 and gone(pids)


@pytest.mark.parametrize("size", [0, -1, 1.5])
def test_a_crew_of_nobody_is_told(size):
    with pytest.raises(ValueError, match="from 1 up"):
        Crew(size)
