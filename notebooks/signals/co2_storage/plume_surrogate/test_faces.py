"""A package's face names its modules, and the slice's map names all."""

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
    told = (package.__doc__, (HOME / "README.md").read_text(encoding="utf-8"))
    assert [name for name in own if any(name not in text for text in told)] == []


def test_the_operator_knows_nothing_of_its_surrogate():
    paths = Path(fourier_operator.__file__).parent.glob("*.py")
    assert [path.name for path in paths if "plume_surrogate" in path.read_text()] == []
