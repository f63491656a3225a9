"""A small Disfl-QA, for the tests of the studies."""

import json

import pytest
from helpers import data


@pytest.fixture
def questions(tmp_path, monkeypatch):
    """The folder that `data.fetch` gives: 24 questions of each part, all different."""
    for part in ("train", "dev", "test"):
        rows = {}
        for n in range(24):
            fluent = f"who {part} w{n} the big {n} of it"
            rows[str(n)] = {"original": fluent, "disfluent": f"when uh no {fluent}"}
        (tmp_path / f"{part}.json").write_text(json.dumps(rows))
    monkeypatch.setattr(data, "fetch", lambda name: tmp_path)
    return tmp_path
