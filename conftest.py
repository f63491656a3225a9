"""Tests of the house that need not run again, one by one: with REBUILT_REUSE_TESTS=1 a test is left out that passed on
this machine while all that it looks at was the same, and how many were is told. A test of one chapter, which has the
chapter, its folder or its page as a parameter, looks at that chapter, its built page and the house's code. Any other
one looks at the house's code and at what its module read of the rest, when it was collected, too: files that it opened,
folders that it listed, and everything where it started another program there. What was skipped or was edited meanwhile
counts as not passed. Chapters' own tests are left out as groups (book/press/run/suite.py).
"""

import json
import os
import sys
import time
from collections import defaultdict
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path

import pytest

ASKED = os.environ.get("REBUILT_REUSE_TESTS") == "1"
if ASKED:  # else nothing of the press is loaded for it
    sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parent / "book")]
    from press.errors import git
    from press.files import sha256
    from press.ledger.tables import pdf_name, volumes
    from press.repository import Chapter, Repository
    from press.reuse import cache as keys
    from press.reuse import store

ROOT = Path(__file__).resolve().parent
HOUSE = ("book/press/", "helpers/", "rehearsal/")
APART = ("notebooks/", "data/", "book/")  # no code of the house, but for HOUSE and the styles and scripts of pages
NOT_READ = tuple(f"{ROOT}/{name}/" for name in (".venv", ".git", ".pytest_cache", "_build/tests", "_build/running"))
DRIVER = "run-driver"  # of the browser: what it shows is opened by a server, and seen there
PASSED, READ = "rebuilt-key", "rebuilt-read"  # what a report says of its test


def pytest_configure(config):
    """Watch and remember, where tests are to be left out."""
    if ASKED and (ROOT / ".git").exists():
        config.pluginmanager.register(Reuse(config), "rebuilt-reuse")


class Reuse:
    """The plugin, in the process that collects tests and in the one that hears how they came out."""

    def __init__(self, config):
        self.repository = Repository(ROOT)
        self.folder, self.config = os.environ.get("REBUILT_CACHE"), config
        parts = keys.house_parts(self.repository)
        self.house = keys.key({name: part for name, part in parts.items() if name not in ("files", "pages")})
        self.names = sorted((git(ROOT, "ls-files", "-co", "--exclude-standard") or "").splitlines())
        own = [name for name in self.names if name.startswith((*HOUSE, "book/_static/")) or not name.startswith(APART)]
        self.code = sha256(json.dumps([self.state(ROOT / name) for name in own]) + self.house)
        self.module, self.read, self.heard, self.chapters = None, defaultdict(set), defaultdict(dict), {}
        self.told, self.began = defaultdict(set), time.time()
        sys.addaudithook(self.watch)

    def watch(self, event, given):
        """Note what the module under test reads of the repository, outside of the house's code."""
        if self.module is None or event not in ("open", "os.listdir", "os.scandir", "subprocess.Popen"):
            return
        if event == "subprocess.Popen":
            words, where = [str(one) for one in given[1] or ()], os.path.abspath(given[2] or ".")
            inside = [one for one in (f"{where}/", *words) if str(ROOT) in one and str(ROOT / "book/press") not in one]
            if inside and DRIVER not in words and not all(one.startswith(NOT_READ) for one in inside):
                self.read[self.module].add(str(ROOT))
            return
        if isinstance(given[0], (str, bytes, os.PathLike)):
            path = os.path.abspath(os.fsdecode(given[0]))
            elsewhere = path.startswith((*NOT_READ, *(f"{ROOT}/{name}" for name in HOUSE))) or "__pycache__" in path
            if path.startswith(f"{ROOT}/") and not elsewhere:
                self.read[self.module].add(path)

    def state(self, path):
        """A hash of a file, of a folder's names, or of all files for the root; "" for what is not there."""
        path, sha = Path(path), sha256
        if path == ROOT:
            return sha(json.dumps([self.state(ROOT / name) for name in self.names if (ROOT / name).is_file()]))
        if path.is_dir():
            return sha(json.dumps(sorted(one.name for one in path.iterdir() if one.name != "__pycache__")))
        return sha(path.read_bytes()) if path.is_file() else ""

    def key(self, item):
        """Of a test of one chapter, one page or one PDF: all that it looks at; None for any other."""
        given = item.callspec.params.items() if hasattr(item, "callspec") else ()
        found = [one for one in (self.looked_at(*pair) for pair in given) if one]
        return sha256(json.dumps([item.nodeid, self.code, found])) if found else None

    def looked_at(self, name, value):
        """The hashes behind a parameter that names a chapter, a page or a PDF; none where it names something else."""
        if name == "volume":
            pages = [page for _, names in volumes(self.repository)[value] for page in names]
            own = [one for one in map(self.of_page, pages) if one]
            return [self.state(ROOT / "_build/html" / pdf_name(self.repository, value)), *own, *self.styles]
        if isinstance(value, Chapter):
            return self.of_page(value.document)
        if isinstance(value, str) and value.endswith(".html"):
            return self.of_page(value.removesuffix(".html"))
        if isinstance(value, str) and value in self.folders:
            return [self.parts(value)]
        return []

    def of_page(self, name):
        """The hashes of a built page, of what all pages share, and of its chapter where it is of one."""
        own = [self.parts(folder) for folder, found in self.folders.items() if name in {one.document for one in found}]
        executed = ROOT / "_build/executed" / f"{name}.ipynb"
        return [self.state(ROOT / "_build/html" / f"{name}.html"), self.state(executed), *own, *self.styles]

    def parts(self, folder):
        """What the tests of a chapter depend on."""
        if folder not in self.chapters:
            self.chapters[folder] = keys.proof_parts(self.repository, self.folders[folder])
        return self.chapters[folder]

    @cached_property
    def folders(self):
        """The notebooks of each chapter by its folder below the root."""
        found = defaultdict(list)
        for one in self.repository.chapters:
            found[f"notebooks/{one.part}/{one.folder}"].append(one)
        return found

    @cached_property
    def styles(self):
        """The hashes of what all built pages share."""
        return [self.state(one) for one in sorted((ROOT / "_build/html/_static").glob("*.*s"))]

    def entry(self, module):
        """The name of what is kept of a module."""
        return sha256(f"{module} {self.house}")[:32]

    def pytest_collection_modifyitems(self, session, config, items):
        """Leave out what passed with the same key; the others say theirs in their reports."""
        kept, gone = [], []
        for item in items:
            module = item.nodeid.partition("::")[0]
            if not module.startswith(HOUSE) or "doctest" in type(item).__name__.lower():
                kept.append(item)
                continue
            if module not in self.heard:
                self.heard[module] = store.get("tests", self.entry(module)) or {}
                looked = self.heard[module].get("read", {})
                same = self.heard[module].get("code") == self.code
                self.heard[module]["same"] = same and all(self.state(path) == one for path, one in looked.items())
            found, own = self.heard[module], self.key(item)
            passed = found.get("passed", {}).get(item.nodeid)
            (gone if passed and passed == (own or (found["same"] and "module")) else kept).append(item)
            item.user_properties.append((PASSED, own or "module"))
        items[:] = kept
        if gone:
            config.hook.pytest_deselected(items=gone)
            if not hasattr(config, "workerinput") or config.workerinput["workerid"] == "gw0":
                print(
                    f"{len(gone)} tests of the house are left out, since they passed here with the same keys",
                    file=sys.stderr,
                )

    @contextmanager
    def watched(self, name):
        """Watch what the module of a node reads while the block runs."""
        module = name.partition("::")[0]
        if module.startswith(HOUSE):
            keys._digest.cache_clear()  # else what one module read would not be seen to be read by the next
            self.module = module
        try:
            yield
        finally:
            self.module = None

    @pytest.hookimpl(wrapper=True)
    def pytest_make_collect_report(self, collector):
        """Watch what a module reads when it is imported and its parameters are made."""
        with self.watched(collector.nodeid):
            return (yield)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item, nextitem):
        """Watch while a test runs, its fixtures too."""
        with self.watched(item.nodeid):
            return (yield)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self, item, call):
        """Say in a test's last report what its module has read that was not said yet."""
        report = yield
        if call.when == "teardown":
            module = item.nodeid.partition("::")[0]
            new = self.read[module] - self.told[module]
            self.told[module] |= new
            report.user_properties = [*report.user_properties, (READ, sorted(new))]
        return report

    def pytest_runtest_logreport(self, report):
        """Hear how a test came out, here or in another process."""
        module, told = report.nodeid.partition("::")[0], dict(report.user_properties)
        if PASSED in told and not hasattr(self.config, "workerinput"):
            results = self.heard[module].setdefault("results", {})
            results.setdefault(report.nodeid, [told[PASSED], True, []])
            results[report.nodeid][1] &= report.passed
            results[report.nodeid][2] += told.get(READ, [])

    def pytest_sessionfinish(self, session):
        """Keep what passed, and what its modules read."""
        if hasattr(self.config, "workerinput"):
            return
        with pytest.MonkeyPatch.context() as patch:
            if self.folder:
                patch.setenv("REBUILT_CACHE", self.folder)
            for module, found in self.heard.items():
                if results := found.get("results"):
                    self.keep(module, results)

    def keep(self, module, results):
        """Write the entry of a module: the tests that passed by their keys, and the state of what was read."""
        old = store.get("tests", self.entry(module)) or {"passed": {}, "read": {}}
        same = old.get("code") == self.code and all(self.state(path) == one for path, one in old["read"].items())
        passed = {name: own for name, own in old["passed"].items() if same or own != "module"}
        for name, (own, well, _) in results.items():
            passed[name] = own if well else ""
        looked = {path: self.state(path) for *_, paths in results.values() for path in paths}
        if any((ROOT / name).stat().st_mtime > self.began for name in self.names if (ROOT / name).is_file()):
            return  # somebody edits: nobody knows which state the tests have seen
        entry = {"code": self.code, "passed": passed, "read": looked | (old["read"] if same else {})}
        store.put("tests", self.entry(module), entry)
