"""A package's face names its modules, and the slice's map names all."""

import re
from pathlib import Path

import fourier_operator
import pytest

import plume_surrogate

HOME = Path(__file__).resolve().parents[1]


@pytest.mark.parametrize("package", [fourier_operator, plume_surrogate])
def test_a_face_and_the_map_name_every_module(package):
    paths = Path(package.__file__).parent.glob("*.py")
    own = [path.stem for path in paths if not path.stem.startswith(("test_", "conftest", "__"))]
    assert len(own) <= 10, "more than ten modules are two rooms"
    face, map_of_all = package.__doc__, (HOME / "README.md").read_text(encoding="utf-8")
    assert [
        name for name in own if not re.search(rf"^{name}\b|`{name}`", face, re.MULTILINE)
    ] == []
    assert [name for name in own if not re.search(rf"`{name}\.py`|\.{name}`", map_of_all)] == []


def test_the_operator_imports_neither_simulator_nor_sites_nor_surrogate():
    paths = Path(fourier_operator.__file__).parent.glob("[!tc]*.py")  # its tests may
    fields = re.compile(
        r"^\s*(?:from|import) (?:plume_surrogate|two_phase|storage_)", re.MULTILINE
    )
    assert [
        path.name for path in paths if fields.search(path.read_text(encoding="utf-8"))
    ] == []
