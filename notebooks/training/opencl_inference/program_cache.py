"""Compiled programs on disk, so that a second start need not compile.

A file is handed to a driver only where it is whole and made on this very device from this very
text: a driver may crash on bytes that are not its own. Anything else counts as absent.
"""

import hashlib
import json
import os
import tempfile
from pathlib import Path


def path(folder, device, text):
    """The file of that program: its name is a hash of the device's name and the text."""
    return Path(folder) / f"{_hash(json.dumps([device, text]).encode())[:32]}.program"


def load(folder, device, text):
    """The program's bytes, or None where the file is absent, torn or another's."""
    try:
        head, _, binary = path(folder, device, text).read_bytes().partition(b"\n")
        about = json.loads(head)
    except (OSError, ValueError):
        return None
    return binary if about == _about(device, text, binary) else None


def save(folder, device, text, binary):
    """Keep the program's bytes: whole or not at all, also where this process is killed."""
    Path(folder).mkdir(parents=True, exist_ok=True)
    head = json.dumps(_about(device, text, binary)).encode()
    with tempfile.NamedTemporaryFile(dir=folder, delete=False) as new:
        new.write(head + b"\n" + binary)
        new.flush()
        os.fsync(new.fileno())
    os.replace(new.name, path(folder, device, text))


def _about(device, text, binary):
    return {"device": device, "text": _hash(text.encode()), "binary": _hash(binary)}


def _hash(data):
    return hashlib.sha256(data).hexdigest()
