"""For `spark-submit … click_features/submit.py RAW OUT`, which takes a file and no module."""

import runpy
import sys
from pathlib import Path

if __name__ == "__main__":
    sys.path[0] = str(Path(__file__).resolve().parents[1])  # where the packages are
    runpy.run_module("click_features.with_spark", run_name="__main__", alter_sys=True)
