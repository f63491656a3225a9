"""The proof: programs come back from disk, and a torn or foreign file is never handed on."""

import program_cache
import pytest


@pytest.fixture
def kept(tmp_path):
    program_cache.save(tmp_path, "here", "text", b"two\nlines")
    return tmp_path


def test_a_program_comes_back(kept):
    assert program_cache.load(kept, "here", "text") == b"two\nlines"


@pytest.mark.parametrize(("device", "text"), [("there", "text"), ("here", "other")])
def test_another_device_or_text_finds_nothing(kept, device, text):
    assert program_cache.load(kept, device, text) is None


@pytest.mark.parametrize("left", [0, 5, -1])
def test_a_torn_file_counts_as_absent(kept, left):
    file = program_cache.path(kept, "here", "text")
    file.write_bytes(file.read_bytes()[:left])
    assert program_cache.load(kept, "here", "text") is None


def test_a_file_under_another_name_counts_as_absent(kept):
    program_cache.path(kept, "here", "text").rename(program_cache.path(kept, "there", "text"))
    assert program_cache.load(kept, "there", "text") is None


def test_a_save_that_fails_leaves_the_old_file(kept, monkeypatch):
    def killed(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(program_cache.os, "replace", killed)
    with pytest.raises(KeyboardInterrupt):
        program_cache.save(kept, "here", "text", b"new")
    assert program_cache.load(kept, "here", "text") == b"two\nlines"
