"""Open the workshop's notebooks in JupyterLab: python room/start.py [--no-browser] [--port 8888]

It listens on this machine only, and asks no network.
"""

import os
import subprocess
import sys
from contextlib import suppress

from install import PYTHON, ROOT


def main():
    """The exit status."""
    if not PYTHON.exists():
        print("There is no .venv yet: python room/install.py makes it.", file=sys.stderr)
        return 1
    quiet = ["--LabApp.news_url=", "--LabApp.check_for_updates_class=jupyterlab.NeverCheckForUpdate"]
    folder = [f"--ServerApp.root_dir={ROOT}", "--ServerApp.ip=127.0.0.1", "--LabApp.default_url=/lab/tree/notebooks"]
    command = [str(PYTHON), "-m", "jupyterlab", *folder, *quiet, *sys.argv[1:]]
    with suppress(KeyboardInterrupt):
        return subprocess.run(command, env={**os.environ, "JUPYTER_PREFER_ENV_PATH": "1"}).returncode
    return 0


if __name__ == "__main__":
    sys.exit(main())
