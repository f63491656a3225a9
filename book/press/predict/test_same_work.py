"""What stands side by side on a page is one task: a chapter's `ours`, `naive` and `broken` answer with the same.

They run on the processor, in a process of their own, since the press imports no torch; at the small sizes that the
suite counts at, or a FEW-th of the LARGE among them.
"""

import json
import os
import subprocess
import sys

import pytest

from press import Repository
from press.predict import counting, kept
from press.repository import HOME

BOOK = [chapter for chapter in Repository(HOME).chapters if counting.source_of(chapter)]
FEW, LARGE = 4, 100
ANSWERS = """
import importlib, json, os, sys, torch

def tensors(answer):  # in lists and tuples, as they may lie; what is no tensor, array or number is no answer
    for one in answer if isinstance(answer, list | tuple) else [answer]:
        yield from tensors(one) if isinstance(one, list | tuple) else [torch.as_tensor(one).detach()]

found = {}
for stem, home, name, sizes in json.loads(sys.argv[2]):
    os.chdir(home)
    sys.path.insert(0, home)
    module, answers, told = importlib.import_module(name), {}, {}
    for role in json.loads(sys.argv[1]):
        if hasattr(module, role):
            torch.manual_seed(0)
            answers[role] = list(tensors(getattr(module, role)(dict(sizes), torch.device("cpu"))()))
            told[role] = [list(one.shape) for one in answers[role]]
    for one, other in zip(answers["ours"], answers.get("broken", ()), strict=False):
        if one.shape == other.shape and not torch.allclose(other.to(one.dtype), one, rtol=1e-4, atol=1e-6):
            told["apart"] = float((other - one).abs().max())
    found[stem] = told
print(json.dumps(found))
"""


@pytest.fixture(scope="module")
def answers(request):
    """By stem, of the chapters asked for: the sizes of what each version answers with, from the same draws, and how far
    broken is from ours."""
    asked = [item.callspec.params["chapter"] for item in request.session.items if "answers" in item.fixturenames]
    tasks = []
    for chapter in asked:
        sizes = counting.sizes_of(chapter)[counting.CHECKED].items()
        few = {name: size // FEW if isinstance(size, int) and size >= LARGE else size for name, size in sizes}
        module = ".".join(counting.source_of(chapter).relative_to(chapter.home).with_suffix("").parts)
        tasks.append((chapter.stem, str(chapter.home), module, few))
    command = [sys.executable, "-W", "ignore", "-c", ANSWERS, json.dumps(kept.ROLES), json.dumps(tasks)]
    own = {**os.environ, "PYTHONPATH": str(HOME), "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, env=own, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.parametrize("chapter", BOOK, ids=str)
def test_all_versions_of_a_chapter_answer_with_as_much_and_the_broken_one_with_the_same(answers, chapter):
    """A naive version may draw other numbers or stop elsewhere; a broken one differs in where it waits alone."""
    told = answers[chapter.stem]
    assert "apart" not in told, f"broken is {told['apart']:g} from ours"
    assert told["ours"] and all(sizes == told["ours"] for sizes in told.values()), told
