"""The repository as the press sees it: configuration, parts, chapters, notebooks, cards, registry. A chapter is a
folder, `notebooks/<part>/<folder>`, with a notebook or two. The class `Chapter` is *one notebook* of it,
`<stem>.ipynb`, with its card `<stem>.yml` beside it."""

import csv
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from types import SimpleNamespace

import nbformat
import yaml
from packaging.utils import canonicalize_name as plain_name

from .errors import PressError

HOME = Path(__file__).resolve().parents[2]
REQUIREMENT = re.compile(r"(?:# no-deps:\s*)?([A-Za-z0-9][\w.-]*)(?:\[[^\]]*\])?==([^\s;]+)")
REGISTRY_COLUMNS = ("dataset", "file", "url", "sha256", "bytes", "licence", "citation", "used_for")


def read_yaml(path: Path) -> object:
    """What the YAML file holds; PressError names the file and the line when it cannot be read."""
    try:
        return yaml.safe_load(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise PressError(f"{path} is missing") from None
    except yaml.YAMLError as error:
        raise PressError(f"{path} is not YAML: {' '.join(str(error).split())}") from None


def read_patterns(path: Path) -> SimpleNamespace:
    """The expressions of a YAML file by name, in which a dot is any sign; of a list any one will do."""
    texts = {name: one if isinstance(one, str) else "|".join(one) for name, one in read_yaml(path).items()}
    return SimpleNamespace(**{name: re.compile(text, re.DOTALL) for name, text in texts.items()})


def read_notebook(path: Path) -> nbformat.NotebookNode:
    """The notebook in the current format; PressError when the file is none."""
    try:
        return nbformat.read(path, as_version=4)
    except FileNotFoundError:
        raise PressError(f"{path} is missing") from None
    except Exception as error:  # nbformat raises many kinds; each means the same to the user
        raise PressError(f"{path} is not a notebook: {error}") from None


@dataclass(unsafe_hash=True)
class Chapter:
    """One notebook with its card, in the folder of its chapter."""

    root: Path
    part: str
    folder: str
    stem: str

    def __post_init__(self):
        self.name = f"{self.part}/{self.folder}/{self.stem}"
        self.document = f"notebooks/{self.name}"  # its name in the book, as in the table of contents
        self.home = self.root / "notebooks" / self.part / self.folder  # where the notebook runs
        self.notebook = self.home / f"{self.stem}.ipynb"  # as committed
        self.card_path = self.home / f"{self.stem}.yml"
        self.executed = self.root / "_build" / "executed" / f"{self.document}.ipynb"
        self.failed = self.root / "_build" / "failed" / f"{self.document}.ipynb"
        self.run_record = self.executed.with_suffix(".run.json")  # how the executed copy came about

    @cached_property
    def card(self) -> dict:
        """The card, empty when it is no mapping; the gate `card` says what is wrong with it."""
        card = read_yaml(self.card_path)
        return card if isinstance(card, dict) else {}

    @cached_property
    def caption(self) -> str:
        """What the contents call its part."""
        parts = (read_yaml(self.root / "_toc.yml") or {}).get("parts") or []
        own = (one.get("caption") for one in parts if any(f"/{self.part}/" in name for name in documents(one)))
        return next(filter(None, own), self.part.capitalize())

    @cached_property
    def content(self) -> nbformat.NotebookNode:
        """The committed notebook."""
        return read_notebook(self.notebook)

    @property
    def cells(self) -> list:
        """The cells of the committed notebook."""
        return self.content.cells

    def modules(self, *, proofs: bool = False) -> list[Path]:
        """The folder's Python files, its packages' too, sorted; with `proofs` also its tests."""
        return [path for path in python_files(self.home) if proofs or not is_proof(path)]

    def files(self) -> list[Path]:
        """What lies in the folder beside code, notebooks, cards and the map, such as weights and data, sorted."""
        found = [path for path in _authored(self.home, "*") if path.suffix not in (".py", ".ipynb")]
        return [path for path in found if path.parent != self.home or path.suffix not in (".yml", ".md")]

    def __str__(self) -> str:
        return f"{self.part}/{self.folder}" if self.folder == self.stem else self.name


def python_files(folder: Path) -> list[Path]:
    """The Python files of a chapter, at any depth, sorted; nothing from hidden and generated folders."""
    return _authored(folder, "*.py")


def _authored(folder: Path, pattern: str) -> list[Path]:
    """The files that are the author's: nothing hidden, nothing that Python wrote."""
    found = {path: path.relative_to(folder).parts for path in folder.rglob(pattern) if path.is_file()}
    return sorted(path for path, parts in found.items() if not any(p[0] == "." or p == "__pycache__" for p in parts))


def is_proof(path: Path) -> bool:
    """Whether the file tests others: `test_*.py` or a conftest."""
    return path.name.startswith(("test_", "conftest"))


def top_name(path: Path, home: Path) -> str:
    """The name by which a notebook imports a chapter's file: its package's, or its own where it lies in no package."""
    return path.relative_to(home).parts[0].removesuffix(".py")


def tags(cell: dict) -> list[str]:
    """The tags of a cell."""
    return list(cell.get("metadata", {}).get("tags", []))


def documents(contents: object) -> list[str]:
    """Every document that the contents name, in any of Jupyter Book's forms, the root first, without suffixes."""
    if isinstance(contents, list):
        return [name for part in contents for name in documents(part)]
    if not isinstance(contents, dict):
        return []
    own = [re.sub(r"\.(md|ipynb)$", "", str(contents[key])) for key in ("root", "file") if key in contents]
    return own + [name for value in contents.values() for name in documents(value)]


class Repository:
    """Everything below one root; read when first asked for and kept.

    >>> repository = Repository(Path("."))
    >>> [str(chapter) for chapter in repository.select(["rolling_distance"])]
    ['signals/rolling_distance']
    """

    def __init__(self, root: Path | str = HOME):
        self.root = Path(root).resolve()
        if not (self.root / "_config.yml").is_file():
            raise PressError(f"{self.root} holds no _config.yml: it is not the root of the book")
        self.build = self.root / "_build"  # the folder of everything generated

    @cached_property
    def config(self) -> dict:
        """`_config.yml`."""
        return dict(read_yaml(self.root / "_config.yml") or {})

    @cached_property
    def toc(self) -> dict:
        """`_toc.yml`."""
        return dict(read_yaml(self.root / "_toc.yml") or {})

    @property
    def url(self) -> str:
        """The repository's address, with no slash at its end."""
        value = (self.config.get("repository") or {}).get("url")
        if not value:
            raise PressError("_config.yml lacks `repository: {url: …}`")
        return str(value).rstrip("/").removesuffix(".git")

    @property
    def site(self) -> str:
        """The address at which the book is published, with a slash at its end."""
        return str((self.config.get("html") or {}).get("baseurl") or self.url).rstrip("/") + "/"

    @cached_property
    def version(self) -> str:
        """The book's version, as `helpers/__init__.py` says it; read, not imported."""
        found = re.search(r'^__version__ = "([^"]+)"$', self.text("helpers/__init__.py"), re.MULTILINE)
        if not found:
            raise PressError('helpers/__init__.py lacks `__version__ = "…"`')
        return found.group(1)

    @property
    def release(self) -> str:
        """The tag of this version."""
        return f"v{self.version}"

    @property
    def branch(self) -> str:
        """The branch of this version that Colab clones and the launch buttons open: see `colab.branch`."""
        return f"learn-{self.release}"

    @cached_property
    def chapters(self) -> list[Chapter]:
        """Every notebook three folders deep under `notebooks/`, in the book's order, what it lacks last."""
        paths = sorted((self.root / "notebooks").glob("*/*/*.ipynb"))
        found = [Chapter(self.root, path.parts[-3], path.parts[-2], path.stem) for path in paths]
        order = {name: place for place, name in enumerate(self.toc_files)}
        return sorted(found, key=lambda chapter: order.get(chapter.document, len(order)))

    def select(self, names: list[str] | None) -> list[Chapter]:
        """The notebooks that the names mean (part, part/folder, part/folder/stem, stem or a path); all for none."""
        if not names:
            return self.chapters
        chosen = {}
        for name in names:
            short = re.sub(r"^.*notebooks/|\.ipynb$|/$", "", name)
            hits = [c for c in self.chapters if short in (c.name, f"{c.part}/{c.folder}", c.part, c.stem)]
            if not hits:
                known = ", ".join(map(str, self.chapters)) or "none"
                raise PressError(f"no chapter is called {name!r}; there are: {known}")
            chosen |= dict.fromkeys(hits)
        return list(chosen)

    @cached_property
    def toc_files(self) -> list[str]:
        """Every document named in `_toc.yml`, the root first, without suffixes."""
        return documents(self.toc)

    @cached_property
    def pages(self) -> list[Path]:
        """The prose pages of the book."""
        return sorted((self.root / "book").glob("*.md"))

    @cached_property
    def registry(self) -> list[dict]:
        """The rows of `data/registry.tsv` as mappings; rows of a wrong width keep what they have."""
        rows = self.text("data/registry.tsv").split("\n")
        return list(csv.DictReader(rows, delimiter="\t", quoting=csv.QUOTE_NONE))

    def megabytes(self, names: Sequence[str]) -> float:
        """What the files of these data sets have in all."""
        sizes = [str(row.get("bytes")) for row in self.registry if row.get("dataset") in names]
        return sum(int(size) for size in sizes if size.isdecimal()) / 1e6

    @cached_property
    def pins(self) -> dict[str, str]:
        """The version of every package that `requirements.txt` pins, by its name in lower case with hyphens."""
        found = [REQUIREMENT.match(row.strip()) for row in self.text("requirements.txt").splitlines()]
        return {plain_name(match.group(1)): match.group(2) for match in found if match}

    @cached_property
    def references(self) -> dict[str, str]:
        """The address of each entry of `book/references.bib` by its key, "" where it has none."""
        parts = re.split(r"^\s*@\w+\s*\{\s*([^,\s]+)\s*,", self.text("book/references.bib"), flags=re.MULTILINE)
        urls = [re.search(r"\burl\s*=\s*[{\"](\S+?)[}\"]", entry) for entry in parts[2::2]]
        return {key: found[1] if found else "" for key, found in zip(parts[1::2], urls, strict=True)}

    def text(self, name: str) -> str:
        """What a file below the root holds; empty where it is missing."""
        path = self.root / name
        return path.read_text(encoding="utf-8") if path.is_file() else ""

    def relative(self, path: Path) -> str:
        """The path below the root, with forward slashes."""
        return Path(path).resolve().relative_to(self.root).as_posix()
