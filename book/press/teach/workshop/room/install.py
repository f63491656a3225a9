"""Install the workshop from this folder, without network: python room/install.py

Makes the environment .venv here from the wheels, or where there are none from the package index, and puts the data
where the notebooks look. Run it again as you like: what is there is kept.
"""

import os
import shutil
import subprocess
import sys
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "room"))
import room_check  # noqa: E402


def own_python():
    """The interpreter of the environment."""
    return ROOT / ".venv" / ("Scripts/python.exe" if os.name == "nt" else "bin/python")


def asked():
    """What pip is asked for: the packages, from the wheels alone where there are wheels."""
    wheels = ROOT / "wheels"
    offline = ["--no-index", "--find-links", str(wheels)] if wheels.is_dir() else []
    return [*offline, "-r", str(ROOT / "room" / "requirements.txt")]


def environment():
    """Make .venv and install the wheels into it; where there are wheels, nothing is asked of a network."""
    if not own_python().exists():
        print("Making .venv", flush=True)
        venv.create(ROOT / ".venv", with_pip=True)
    pip = [str(own_python()), "-m", "pip", "install", "--disable-pip-version-check", "--quiet"]
    print("Installing the packages (a minute or two)", flush=True)
    subprocess.run([*pip, *asked()], check=True)
    ask = "import sysconfig; print(sysconfig.get_path('purelib'))"
    found = subprocess.run([str(own_python()), "-c", ask], check=True, capture_output=True, text=True)
    Path(found.stdout.strip(), "rebuilt.pth").write_text(f"{ROOT}\n", encoding="utf-8")  # so that `helpers` is found


def data():
    """Put the data where `helpers.data` keeps verified files: linked where possible, else copied."""
    for path in sorted((ROOT / "data" / "files").rglob("*")):
        target = ROOT / "_build" / "data" / path.relative_to(ROOT / "data" / "files")
        if path.is_dir() or target.exists():
            continue
        target.parent.mkdir(parents=True, exist_ok=True)
        try:
            os.link(path, target)
        except OSError:
            shutil.copyfile(path, target)


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
    data()
    print("Done. Begin with: python room/start.py")
    return 0


if __name__ == "__main__":
    sys.exit(main())
