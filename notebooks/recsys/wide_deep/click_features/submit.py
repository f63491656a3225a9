"""For `spark-submit … click_features/submit.py RAW OUT`, which takes a file and no module."""

import json
import sys
from pathlib import Path

if __name__ == "__main__":
    sys.path[0] = str(Path(__file__).resolve().parents[1])  # where the packages are
    from click_features import with_spark

    print(json.dumps(with_spark.build(*sys.argv[1:])))
