import os
import struct
import zipfile

import pytest

from .delivery import extract


def archive(path, entries):
    """A zip file of (name or ZipInfo, content) pairs."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as pack:
        for name, content in entries:
            pack.writestr(name, content)
    return path


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def test_an_archive_is_unpacked_whole(tmp_path):
    entries = [
        ("deep/er/a.txt", b"A"),
        ("b.txt", b"B" * 100_000),
        ("empty/", b""),
        ("c.txt", b""),
    ]
    folder = extract(archive(tmp_path / "a.zip", entries), tmp_path / "out")
    found = {
        p.relative_to(folder).as_posix(): p.read_bytes()
        for p in folder.rglob("[!.]*")
        if p.is_file()
    }
    assert found == {"deep/er/a.txt": b"A", "b.txt": b"B" * 100_000, "c.txt": b""}
    assert (folder / "empty").is_dir() and len(names(folder)) == 4


def special(mode):
    info = zipfile.ZipInfo("entry")
    info.external_attr = mode << 16
    return info


HOSTILE = {
    "climbs": [("../x", b"")],
    "deep-climb": [("a/../../x", b"")],
    "absolute": [("/tmp/x", b"")],
    "drive": [("C:x", b"")],
    "backslash": [("..\\x", b"")],
    "link": [(special(0o120777), b"/etc/passwd")],
    "device": [(special(0o020666), b"")],
    "fifo": [(special(0o010666), b"")],
    "bomb": [("x", b"0" * 2_000_000)],
    "count": [(f"x{i}", b"") for i in range(30)],
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_archive_is_refused_and_leaves_nothing(tmp_path, name):
    path = archive(tmp_path / "a.zip", [("good.txt", b"good"), *HOSTILE[name]])
    with pytest.raises(ValueError, match="refused"):
        extract(path, tmp_path / "in" / "out", max_bytes=1_000_000, max_files=20)
    assert sorted(p.name for p in tmp_path.rglob("*")) == ["a.zip", "in"]


def test_an_entry_that_is_longer_than_it_says_is_no_bomb(tmp_path):
    path = archive(tmp_path / "a.zip", [("x", b"0" * 2_000_000)])
    content = path.read_bytes()
    assert content.count(struct.pack("<I", 2_000_000)) == 2
    path.write_bytes(content.replace(struct.pack("<I", 2_000_000), struct.pack("<I", 10)))
    with pytest.raises(ValueError, match="no whole zip"):
        extract(path, tmp_path / "out", max_bytes=1_000_000)
    assert names(tmp_path) == ["a.zip"]


@pytest.mark.parametrize("content", [b"", b"no archive", "cut"])
def test_a_damaged_archive_is_refused_and_leaves_nothing(tmp_path, content):
    path = archive(tmp_path / "a.zip", [("x", os.urandom(50_000))])
    path.write_bytes(path.read_bytes()[:20_000] if content == "cut" else content)
    with pytest.raises(ValueError, match="no whole zip"):
        extract(path, tmp_path / "out")
    assert names(tmp_path) == ["a.zip"]


@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_entries_of_one_name_are_refused(tmp_path):
    with pytest.raises(FileExistsError):
        extract(archive(tmp_path / "a.zip", [("x", b"1"), ("x", b"2")]), tmp_path / "out")
    assert names(tmp_path) == ["a.zip"]


def test_a_folder_in_use_is_left_alone(tmp_path):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "mine").write_text("mine")
    with pytest.raises(FileExistsError, match="holds other files"):
        extract(archive(tmp_path / "a.zip", [("x", b"1")]), tmp_path / "out")
    assert names(tmp_path / "out") == ["mine"]
