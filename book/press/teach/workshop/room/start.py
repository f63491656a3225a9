"""Open the workshop's notebooks in JupyterLab: python room/start.py [--no-browser] [--port 8888]

It listens on this machine only, and asks no network.
"""

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "room"))
from install import own_python  # noqa: E402


def main():
    """The exit status."""
    if not own_python().exists():
        print("There is no .venv yet: python room/install.py makes it.", file=sys.stderr)
        return 1
    own = {"REBUILT_DATA_MIRROR": str(ROOT / "data" / "files"), "JUPYTER_PREFER_ENV_PATH": "1"}
    quiet = ["--LabApp.news_url=", "--LabApp.check_for_updates_class=jupyterlab.NeverCheckForUpdate"]
    folder = [f"--ServerApp.root_dir={ROOT}", "--ServerApp.ip=127.0.0.1", "--LabApp.default_url=/lab/tree/notebooks"]
    command = [str(own_python()), "-m", "jupyterlab", *folder, *quiet, *sys.argv[1:]]
    try:
        return subprocess.run(command, env={**os.environ, **own}).returncode
    except KeyboardInterrupt:
        return 0


if __name__ == "__main__":
    sys.exit(main())
