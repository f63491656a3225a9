"""The chapters' tests that ask for a GPU, on the pretended one, in a process of their own.

They are parametrised over "cpu" and "cuda"; where there is no GPU, "cuda" is skipped in the suite's own processes and
runs here, a few cases of each test. `make test ARGS="-p rehearsal.plugin --only-gpu notebooks"` runs all.
"""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch

ROOT = Path(__file__).resolve().parents[1]
FEW = 3  # cases of each test
MAY = re.compile("gpu|cuda|devices", re.IGNORECASE)  # in a file with a test that asks for one; no other is imported
LONG = {  # tests of half a minute; `--only-gpu` alone runs them
    "notebooks/signals/co2_storage": ["two_phase/test_simulator.py::test_a_batch_is_its_cases_one_by_one"],
}
NO_GPU = pytest.mark.skipif(torch.cuda.is_available(), reason="a real GPU is here: the chapters' tests run on it")


def slices():
    """The chapters with a test that is skipped for want of a GPU."""
    asked = re.compile('reason="[^"]*GPU')  # as rehearsal.plugin's needs_gpu; a word in a docstring asks for nothing
    paths = [path for path in (ROOT / "notebooks").glob("*/*/**/test_*.py") if asked.search(path.read_text("utf-8"))]
    return sorted({"/".join(path.relative_to(ROOT).parts[:3]) for path in paths})


@pytest.fixture(scope="module")
def rehearsed(request):
    """The finished process that ran those tests of the chapters that are asked for: one, for each spends seconds on
    importing torch."""
    here = [item for item in request.session.items if item.path == request.path and "rehearsed" in item.fixturenames]
    homes = sorted({item.callspec.params["home"] for item in here})
    files = sorted(
        path for home in homes for path in (ROOT / home).rglob("test_*.py") if MAY.search(path.read_text("utf-8"))
    )
    options = ["-v", "-n0", "-p", "rehearsal.plugin", "--only-gpu", "--few", FEW, "-p", "no:cacheprovider", *files]
    options += [word for home in homes for long in LONG.get(home, ()) for word in ("--deselect", f"{home}/{long}")]
    own = {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-W", "ignore", "-m", "pytest", *map(str, options)]
    return subprocess.run(
        command, cwd=ROOT, env={**os.environ, **own}, capture_output=True, text=True, timeout=600, check=False
    )


@NO_GPU
@pytest.mark.parametrize("home", slices())
def test_a_slice_s_tests_for_a_gpu_pass_on_the_pretended_one(rehearsed, home):
    own = re.findall(rf"^{home}/\S+::.* (PASSED|FAILED|ERROR|SKIPPED)", rehearsed.stdout, re.MULTILINE)
    told = rehearsed.stdout[-9000:] + rehearsed.stderr[-2000:]
    assert "PASSED" in own and not {"FAILED", "ERROR"} & set(own), told
    assert re.search(rf"^{home}: operations [1-9]", rehearsed.stdout, re.MULTILINE), (
        "nothing ran on the device\n" + told
    )
    assert rehearsed.returncode == 0, told
