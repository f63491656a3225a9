"""Packages for browsers: verified wherever they come from, and nobody is asked where that is forbidden."""

import hashlib
import io
import os
import re
import tarfile

import pytest

from press import PressError, npm
from press.teach.workshop.paper import REVEAL, put_reveal

CLIENT = """#!/bin/sh
test "$1 $2 $3" = "pack reveal.js@9.9.9 --ignore-scripts" && cp "{package}" reveal.js-9.9.9.tgz
"""


@pytest.fixture
def pinned(tmp_path, monkeypatch):
    """A function that pins a package of slides with the SHA-256 `sha` or its own; the package."""
    text = io.BytesIO()
    with tarfile.open(fileobj=text, mode="w:gz") as packed:
        for name in REVEAL:
            entry = tarfile.TarInfo(f"package/{name}")
            entry.size = len(name)
            packed.addfile(entry, io.BytesIO(name.encode()))
    package = tmp_path / "package.tgz"
    package.write_bytes(text.getvalue())
    monkeypatch.setattr(npm, "RUNTIMES", tmp_path / "runtimes.tsv")
    for name in ("REBUILT_DATA_MIRROR", "REBUILT_OFFLINE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(npm.shutil, "which", lambda name: None)

    def pin(sha=None):
        row = ["reveal.js", "9.9.9", sha or hashlib.sha256(text.getvalue()).hexdigest(), "MIT", "Someone", "slides"]
        npm.RUNTIMES.write_text("\t".join(npm.COLUMNS) + "\n" + "\t".join(row) + "\n")
        return package

    return pin


def with_npm(package, monkeypatch):
    """An npm that brings the package, and nothing else."""
    client = package.with_name("npm")
    client.write_text(CLIENT.format(package=package))
    client.chmod(0o755)
    monkeypatch.setattr(npm.shutil, "which", lambda name: str(client))


def test_npm_brings_a_package_once_and_its_licence_goes_with_the_slides(small, pinned, monkeypatch, tmp_path):
    with_npm(pinned(), monkeypatch)
    put_reveal(small.repository, tmp_path / "reveal")
    assert {path.name: path.read_text() for path in (tmp_path / "reveal").iterdir()} == {
        name.rpartition("/")[2]: name for name in REVEAL
    }
    monkeypatch.setattr(npm.shutil, "which", lambda name: None)
    assert npm.package(small.repository, "reveal.js").parent == small.root / "_build/data/reveal.js"


@pytest.mark.parametrize("address", [False, True])
def test_the_mirror_is_asked_before_npm(small, pinned, monkeypatch, tmp_path, address):
    package = pinned()
    (tmp_path / "mirror/reveal.js").mkdir(parents=True)
    os.rename(package, tmp_path / "mirror/reveal.js/reveal.js-9.9.9.tgz")
    mirror = (tmp_path / "mirror").as_uri() if address else str(tmp_path / "mirror")
    monkeypatch.setenv("REBUILT_DATA_MIRROR", mirror + "/")
    assert npm.package(small.repository, "reveal.js").is_file()


def test_offline_neither_npm_nor_a_mirror_with_an_address_is_asked(small, pinned, monkeypatch):
    with_npm(pinned(), monkeypatch)
    monkeypatch.setenv("REBUILT_OFFLINE", "1")
    monkeypatch.setenv("REBUILT_DATA_MIRROR", "https://example.org")
    with pytest.raises(PressError, match=r"reveal.js-9.9.9.tgz cannot be had") as caught:
        npm.package(small.repository, "reveal.js")
    assert str(caught.value).count("REBUILT_OFFLINE") == 2


def test_another_package_than_the_pinned_one_is_refused_wherever_it_lies(small, pinned, monkeypatch):
    with_npm(pinned("0" * 64), monkeypatch)
    small.write("_build/data/reveal.js/reveal.js-9.9.9.tgz", "changed")
    with pytest.raises(PressError) as caught:
        npm.package(small.repository, "reveal.js")
    assert len(re.findall(r"SHA-256 [0-9a-f]{64}, and 0{64} is pinned", str(caught.value))) == 2


def test_without_npm_it_is_said_what_to_do(small, pinned):
    pinned()
    with pytest.raises(PressError, match=r"put it there or into the mirror, or install npm(.|\n)*npm is not installed"):
        npm.package(small.repository, "reveal.js")
