import json
import os
import subprocess
import sys
from types import SimpleNamespace

import pytest
import torch

from helpers import _records, device, preflight
from helpers.conftest import H200, T4

pytestmark = pytest.mark.usefixtures("untouched")


@pytest.fixture
def chapter(tmp_path, monkeypatch):
    """A folder with a notebook's card, as the current one."""
    (tmp_path / "demo.ipynb").write_text('{"cells": []}')
    (tmp_path / "demo.yml").write_text("needs: {memory_gb: 3, disk_mb: 150, gpu: optional}\n")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def roomy(monkeypatch):
    """A function that sets this machine's memory and free disk, in GB."""

    def have(memory_gb=16, disk_gb=50):
        monkeypatch.setattr(device, "memory", lambda: memory_gb and memory_gb * 1e9)
        monkeypatch.setattr(preflight.shutil, "disk_usage", lambda path: SimpleNamespace(free=disk_gb * 1e9))

    have()
    return have


def test_a_preflight_on_a_machine_that_fits_prints_one_sentence(gpu, roomy, chapter, capsys):
    gpu(None)
    tier = preflight.preflight("auto", "demo")
    assert tier.name == "cpu" and capsys.readouterr().out == tier.sentence + "\n"


@pytest.fixture
def kept(tmp_path, monkeypatch):
    """A function that commits a receipt, of a tier and of what, to a repository that stands for the book's."""
    monkeypatch.setattr(_records, "root", lambda: tmp_path)

    def keep(tier, name=""):
        machine = {"slug": "tesla-t4", "gpu": "Tesla T4"}
        content = {"schema": 1, "machine": machine, "versions": {}, "metrics": {}, "tier": tier}
        content |= dict.fromkeys(("chapter", "notebook", "date", "code"), "x")
        path = tmp_path / f"data/receipts/demo/{tier}-tesla-t4{name}.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(content))

    return keep


def test_auto_takes_the_sizes_of_cpu_on_a_gpu_that_nobody_has_timed_and_says_how_to_ask_for_more(
    gpu, roomy, chapter, kept, capsys
):
    gpu(T4)
    kept("cpu"), kept("big"), kept("gpu", "-race")
    tier = preflight.preflight("auto", "demo")
    assert (tier.name, tier.device) == ("cpu", "cpu")
    first, *rest = capsys.readouterr().out.splitlines()
    assert 'at tier gpu, so "auto" takes the sizes of cpu; TIER = "gpu" asks for more, on the Tesla T4' in first
    assert rest == [tier.sentence]


@pytest.mark.parametrize(("card", "name"), [(T4, "gpu"), (H200, "big")])
def test_auto_takes_the_sizes_of_a_gpu_where_a_run_of_the_notebook_on_one_is_recorded(
    gpu, roomy, chapter, kept, card, name
):
    gpu(card)
    kept(name)
    assert preflight.preflight("auto", "demo").name == name


def test_a_gpu_s_tier_that_is_asked_for_needs_no_receipt(gpu, roomy, chapter, kept, monkeypatch):
    gpu(T4)
    assert preflight.preflight("gpu", "demo").name == "gpu"
    monkeypatch.setenv("REBUILT_TIER", "gpu")
    assert preflight.preflight("auto", "demo").name == "gpu"


@pytest.mark.parametrize(
    ("memory_gb", "disk_gb", "told"),
    [
        (2, 50, "2.0 GB of memory where 3 are asked for"),
        (16, 0.1, "100.0 MB of free disk where 150 are asked for"),
        (2, 0.1, "3 are asked for, 100.0 MB"),
    ],
)
def test_a_preflight_says_what_falls_short_and_which_size_to_change(
    gpu, roomy, chapter, capsys, memory_gb, disk_gb, told
):
    gpu(None)
    roomy(memory_gb, disk_gb)
    preflight.preflight("auto", "demo", size="points")
    said = capsys.readouterr().out.splitlines()
    assert len(said) == 2 and told in said[1] and "make points smaller where tier.pick sets it" in said[1]


def test_numbers_given_stand_in_for_the_card(gpu, roomy, capsys):
    gpu(None)
    roomy(2, 50)
    preflight.preflight(memory_gb=2.5)
    assert "2.0 GB of memory where 2.5 are asked for" in capsys.readouterr().out
    roomy(None, 50)
    preflight.preflight(memory_gb=2.5)
    assert "memory" not in capsys.readouterr().out, "where it is unknown, nothing is claimed"


@pytest.mark.parametrize(("found", "told"), [(T4, True), (H200, False)])
def test_a_card_without_bfloat16_is_told(gpu, roomy, capsys, found, told):
    gpu(found)
    preflight.preflight()
    assert ("no bfloat16 units" in capsys.readouterr().out) is told


def test_a_chapter_that_requires_a_gpu_names_the_parameter(gpu, roomy, chapter):
    gpu(None)
    (chapter / "demo.yml").write_text("needs: {memory_gb: 3, disk_mb: 150, gpu: required}\n")
    with pytest.raises(ValueError, match="needs a GPU, and torch sees none here. Set TIER ="):
        preflight.preflight("auto", "demo")


def test_helpers_of_another_release_are_stale(gpu, roomy, tmp_path, monkeypatch):
    for name in ("_config.yml", "data/registry.tsv", "helpers/__init__.py"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text('__version__ = "7.7.7"\n')
    monkeypatch.chdir(tmp_path)
    with pytest.raises(RuntimeError, match="Stale runtime: helpers .* are loaded, the book is 7.7.7; restart"):
        preflight.preflight()


@pytest.mark.parametrize(
    "error",
    [
        MemoryError(),
        torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2 GiB."),
        RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 9 bytes"),
        RuntimeError("CUBLAS_STATUS_ALLOC_FAILED when calling cublasCreate"),
    ],
)
@pytest.mark.parametrize(("found", "told"), [(None, "make points"), (T4, '"cpu", or'), (H200, '"gpu", or make points')])
def test_out_of_memory_names_the_tier_and_the_size(gpu, capsys, error, found, told):
    gpu(found)
    device.tier()
    said = preflight.advice(error, "points")
    assert said.startswith("Memory ran out: ") and told in said and "where tier.pick sets it" in said
    assert ("TIER" in said) is bool(found)


@pytest.mark.parametrize("text", ["Found no NVIDIA driver on your system.", "Torch not compiled with CUDA enabled"])
def test_no_gpu_names_the_tier(text):
    assert 'Set TIER = "auto" or "cpu"' in preflight.advice(RuntimeError(text))


@pytest.mark.parametrize("name", ["demo.py", "sounds/__init__.py", "sounds/filters.py"])
def test_a_loaded_file_changed_since_the_import_makes_the_runtime_stale(chapter, monkeypatch, name):
    error = ImportError("cannot import name 'zdist'")
    path = chapter / name
    path.parent.mkdir(exist_ok=True)
    path.write_text("x = 1\n")
    monkeypatch.setitem(sys.modules, "loaded_here", SimpleNamespace(__file__=str(path)))
    os.utime(path, (preflight.BEGAN - 5, preflight.BEGAN - 5))
    assert preflight.advice(error) == ""
    os.utime(path, (preflight.BEGAN + 5, preflight.BEGAN + 5))
    assert preflight.advice(error).startswith("Stale runtime: loaded_here changed since it began; restart the session")
    assert preflight.advice(ValueError("other")) == ""


def test_a_file_that_was_not_loaded_or_lies_elsewhere_makes_nothing_stale(chapter, monkeypatch):
    (chapter / "demo.py").write_text("x = 1\n")
    os.utime(chapter / "demo.py", (preflight.BEGAN + 5, preflight.BEGAN + 5))
    assert preflight.advice(AttributeError("x")) == ""
    monkeypatch.setitem(sys.modules, "loaded_here", SimpleNamespace(__file__=str(chapter / "demo.py")))
    (chapter / "below").mkdir()
    monkeypatch.chdir(chapter / "below")
    assert preflight.advice(AttributeError("x")) == ""


NOTEBOOK_ERROR = """
from IPython.testing.globalipapp import start_ipython
shell = start_ipython()
from helpers.preflight import preflight
preflight("cpu", size="points")
for code in ("bytearray(2**62)", "import torch; raise torch.OutOfMemoryError('CUDA out of memory')", "1 / 0"):
    done = shell.run_cell(code)
    print("FAILED", type(done.error_in_exec).__name__)
"""


def test_in_a_notebook_the_error_itself_names_what_to_change():
    done = subprocess.run([sys.executable, "-c", NOTEBOOK_ERROR], capture_output=True, text=True, check=True)
    first, second, third = done.stdout.split("FAILED")[:3]
    for said in (first, second):
        assert "Memory ran out: make points smaller where tier.pick sets it; then restart the session" in said
    assert "ZeroDivisionError" in third and "Memory ran out" not in third
    assert done.stdout.count("FAILED") == 3
