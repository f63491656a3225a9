"""The exercise's kernel in the stand-in, and in Triton's own interpreter where there is one.

The variable TRITON_LANGUAGE_PYTHON names the Python of an environment with triton and torch.
"""

import json
import os
import subprocess
from pathlib import Path

import numpy as np
import pytest

from . import kernel_language as tl

NOTEBOOK = Path(__file__).parent.parent / "parameter_server.ipynb"
DRIVER = """
import torch, triton
import triton.language as tl
{source}
probe_kernel = triton.jit(probe_kernel)
keys, homes, slabs = (torch.tensor(one) for one in {cases})
found = torch.full_like(keys, -9)
probe_kernel[(len(keys),)](keys, homes, slabs, found, SLAB=32)
print(found.tolist())
"""


def solution():
    """The source of the exercise's kernel, as it stands in the notebook."""
    for cell in json.loads(NOTEBOOK.read_text(encoding="utf-8"))["cells"]:
        about = cell["metadata"]
        if "solution" in about.get("tags", ()) and about["exercise"]["id"] == "probe_kernel":
            source = "".join(cell["source"])
            return source[source.index("def probe_kernel") : source.index("check_probe_kernel")]
    raise AssertionError("the exercise is gone")


def cases(seed=0):
    """Keys of which some are in their slab, some in another one, some nowhere."""
    rng = np.random.default_rng(seed)
    slabs = rng.permutation(2**40 + np.arange(7 * 32))
    keys = np.concatenate([rng.choice(slabs, 60), [5, -5]])
    homes = rng.integers(0, 7, 62)
    where = {key: at for at, key in enumerate(slabs.tolist())}
    homes[:40] = [where[key] // 32 for key in keys[:40].tolist()]
    at = np.array([where.get(key, -1) for key in keys.tolist()])
    return keys, homes, slabs, np.where(at // 32 == homes, at, -1)


def test_the_solution_finds_what_is_in_its_slab():
    keys, homes, slabs, wanted = cases()
    found, space = np.full(62, -9), {"tl": tl}
    exec(solution(), space)
    tl.run(space["probe_kernel"], 62, keys, homes, slabs, found, SLAB=32)
    assert found.tolist() == wanted.tolist() and (wanted[:40] >= 0).all() and -1 in wanted


def test_the_solution_runs_in_tritons_interpreter(tmp_path):
    python = os.environ.get("TRITON_LANGUAGE_PYTHON", "")
    if not python or not Path(python).is_file():
        pytest.skip("TRITON_LANGUAGE_PYTHON names no Python with triton")
    *arrays, wanted = cases()
    file = tmp_path / "kernel.py"
    told = [one.tolist() for one in arrays]
    file.write_text(DRIVER.format(source=solution(), cases=told))
    env = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "TRITON_INTERPRET": "1"}
    done = subprocess.run([python, file], env=env, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr[-2000:]
    assert json.loads(done.stdout) == wanted.tolist()


def test_loads_and_stores_stay_inside():
    row, out, lanes = np.arange(4), np.zeros(4, np.int64), tl.arange(0, 4)
    assert tl.load(tl.Pointer(row) + lanes[:2] + 2).tolist() == [2, 3]
    tl.store(tl.Pointer(out) + 2, tl.max(tl.where(lanes < 2, lanes, -1), axis=0))
    assert out.tolist() == [0, 0, 1, 0]
    for wrong in (tl.Pointer(row) + (lanes + 2), tl.Pointer(row, -1)):
        with pytest.raises(IndexError, match="of an array of 4"):
            tl.load(wrong)
    with pytest.raises(ValueError, match="power of two"):
        tl.arange(0, 3)
