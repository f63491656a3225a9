"""Install the workshop from this folder, without network: python room/install.py

Makes the environment .venv here from the wheels, or where there are none from the package index, and puts the data
where the notebooks look. Run it again as you like: what is there is kept.
"""

import os
import shutil
import subprocess
import sys
import venv

import room_check
from room_check import ROOT

PYTHON = ROOT / ".venv" / ("Scripts/python.exe" if os.name == "nt" else "bin/python")  # of the environment


def asked():
    """What pip is asked for: the packages, from the wheels alone where there are wheels."""
    offline = ["--no-index", "--find-links", str(ROOT / "wheels")] if (ROOT / "wheels").is_dir() else []
    return [*offline, "-r", str(ROOT / "room" / "requirements.txt")]


def environment():
    """Make .venv and install the wheels into it; where there are wheels, nothing is asked of a network."""
    if not PYTHON.exists():
        print("Making .venv", flush=True)
        venv.create(ROOT / ".venv", with_pip=True)
    print("Installing the packages (a minute or two)", flush=True)
    pip = [str(PYTHON), "-m", "pip", "install", "--disable-pip-version-check", "--quiet"]
    subprocess.run([*pip, *asked()], check=True)
    add = f"import site; open(site.getsitepackages()[-1] + '/rebuilt.pth', 'w').write({str(ROOT)!r})"
    subprocess.run([str(PYTHON), "-c", add], check=True)  # so that `helpers` is found


def main():
    """The exit status."""
    fits, told = room_check.python(room_check.facts())
    if not fits:
        print(f"This bundle does not fit: {told}.", file=sys.stderr)
        return 1
    try:
        environment()
    except (subprocess.CalledProcessError, OSError) as error:
        print(f"The installation stopped: {error}. Delete .venv and run this again.", file=sys.stderr)
        return 1
    if (ROOT / "data" / "files").is_dir():  # where `helpers.data` keeps verified files
        shutil.copytree(ROOT / "data" / "files", ROOT / "_build" / "data", dirs_exist_ok=True)
    print("Done. Begin with: python room/start.py")
    return 0


if __name__ == "__main__":
    sys.exit(main())
