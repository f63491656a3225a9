"""An archive that somebody sent, unpacked: all of it, or nothing if damaged or hostile."""

import errno
import hashlib
import lzma
import os
import re
import shutil
import stat
import tempfile
import zipfile
import zlib
from pathlib import Path


def extract(archive, folder, max_bytes=10**10, max_files=100_000):
    """The `folder` (a `Path`) with the unpacked files of a zip archive: all, or nothing.

    Unpacked before, it is left as it is. Raises ValueError for a damaged archive, names that
    leave the folder, links, more than `max_files` entries or `max_bytes` bytes; FileExistsError
    for a folder in use.
    """
    archive, folder = Path(archive), Path(folder)
    with archive.open("rb") as stream:
        mark = hashlib.file_digest(stream, "sha256").hexdigest()
    done = folder / ".extracted"
    if done.is_file() and done.read_text() == mark:
        return folder
    if folder.exists() and any(folder.iterdir()):
        mend = f"remove it or name a new folder for {archive.name}"
        raise FileExistsError(f"{folder} holds other files; {mend}")
    folder.parent.mkdir(parents=True, exist_ok=True)
    temp = Path(tempfile.mkdtemp(prefix=f".{folder.name}.", dir=folder.parent))
    try:
        with zipfile.ZipFile(archive) as pack:
            _unpack(pack, temp, archive.name, max_bytes, max_files)
        (temp / done.name).write_text(mark)
        temp.chmod(0o755)
        os.replace(temp, folder)
    except (zipfile.BadZipFile, zlib.error, lzma.LZMAError, EOFError, RuntimeError) as error:
        raise ValueError(f"{archive.name} is no whole zip archive: {error}") from error
    except OSError as error:
        if error.errno not in (None, errno.EINVAL) or isinstance(error, FileExistsError):
            raise
        why = f"{archive.name} is no whole zip archive: {error}"  # an offset before the start
        raise ValueError(why) from error
    finally:
        shutil.rmtree(temp, ignore_errors=True)
    return folder


def _unpack(pack, folder, label, max_bytes, max_files):
    """None; every entry of an archive as a file; a stream gives no more than its size."""
    entries = pack.infolist()
    if len(entries) > max_files or sum(entry.file_size for entry in entries) > max_bytes:
        raise ValueError(f"{label} refused: more than {max_files} entries or {max_bytes} bytes")
    for entry in entries:
        name = entry.filename.rstrip("/")
        if stat.S_IFMT(entry.external_attr >> 16) not in (0, stat.S_IFREG, stat.S_IFDIR):
            raise ValueError(f"{label} refused: {name!r} is no plain file")
        if {"", ".", ".."} & set(name.split("/")) or re.search(r"\\|\0|^[A-Za-z]:", name):
            raise ValueError(f"{label} refused: {name!r} is no relative name that stays below")
        target = folder / name
        (target if entry.is_dir() else target.parent).mkdir(parents=True, exist_ok=True)
        if not entry.is_dir():
            with pack.open(entry) as stream, target.open("xb") as out:
                shutil.copyfileobj(stream, out)
