"""The repository as the press sees it: configuration, parts, chapters, cards, registry.

A *chapter* here is one notebook: `notebooks/<part>/<folder>/<stem>.ipynb` with its card `<stem>.yml`
beside it. Its name is `<part>/<folder>/<stem>`; two notebooks may share a folder (a slice).
"""

import csv
import re
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import nbformat
import yaml

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


@dataclass(frozen=True)
class Chapter:
    """One notebook with its card and the slice that it belongs to."""

    root: Path
    part: str
    folder: str
    stem: str

    @property
    def name(self) -> str:
        """`part/folder/stem`, as in the setup cell and in the table of contents."""
        return f"{self.part}/{self.folder}/{self.stem}"

    @property
    def home(self) -> Path:
        """The slice's folder, where the notebook runs."""
        return self.root / "notebooks" / self.part / self.folder

    @property
    def notebook(self) -> Path:
        """The notebook as committed."""
        return self.home / f"{self.stem}.ipynb"

    @property
    def card_path(self) -> Path:
        """The card beside the notebook."""
        return self.home / f"{self.stem}.yml"

    @property
    def document(self) -> str:
        """The notebook's path in the repository, with no suffix: its name in the book."""
        return f"notebooks/{self.name}"

    @property
    def executed(self) -> Path:
        """Where the executed copy lies."""
        return self.root / "_build" / "executed" / f"{self.document}.ipynb"

    @property
    def run_record(self) -> Path:
        """Where the press notes how the executed copy came about."""
        return self.executed.with_suffix(".run.json")

    @cached_property
    def card(self) -> dict:
        """The card, empty when it is no mapping; the gate `card` says what is wrong with it."""
        card = read_yaml(self.card_path)
        return card if isinstance(card, dict) else {}

    @cached_property
    def content(self) -> nbformat.NotebookNode:
        """The committed notebook."""
        return read_notebook(self.notebook)

    @property
    def cells(self) -> list:
        """The cells of the committed notebook."""
        return self.content.cells

    def modules(self, *, proofs: bool = False) -> list[Path]:
        """The slice's Python files, its packages' too, sorted; with `proofs` also its tests."""
        own = python_files(self.home)
        return own if proofs else [path for path in own if not is_proof(path)]

    def files(self) -> list[Path]:
        """What lies in the slice beside code, notebooks, cards and the map, such as weights and data, sorted."""
        found = {path: path.relative_to(self.home).parts for path in self.home.rglob("*") if path.is_file()}
        own = {path for path, parts in found.items() if len(parts) == 1 and path.suffix in (".yml", ".md")}
        written = {path for path in found if path.suffix in (".py", ".ipynb")}
        return sorted(path for path in found.keys() - own - written if not _generated(found[path]))

    def __str__(self) -> str:
        return f"{self.part}/{self.folder}" if self.folder == self.stem else self.name


def python_files(folder: Path) -> list[Path]:
    """The Python files of a slice, at any depth, sorted; nothing from hidden and generated folders."""
    found = {path: path.relative_to(folder).parts for path in folder.rglob("*.py")}
    return sorted(path for path, parts in found.items() if not _generated(parts))


def _generated(parts: tuple[str, ...]) -> bool:
    """Whether a path of these parts is a tool's, not the author's."""
    return any(part[0] == "." or part == "__pycache__" for part in parts)


def is_proof(path: Path) -> bool:
    """Whether the file tests others: `test_*.py` or a conftest."""
    return path.name.startswith(("test_", "conftest"))


def top_name(path: Path, home: Path) -> str:
    """The name by which a notebook imports a slice's file: its package's, or its own where it lies in no package."""
    return path.relative_to(home).parts[0].removesuffix(".py")


def plain_name(package: str) -> str:
    """A package's name as the index compares it: lower case, parted by hyphens.

    >>> plain_name("Prometheus_Client")
    'prometheus-client'
    """
    return re.sub(r"[-_.]+", "-", package).lower()


def read_notebook(path: Path) -> nbformat.NotebookNode:
    """The notebook in the current format; PressError when the file is none."""
    try:
        return nbformat.read(path, as_version=4)
    except FileNotFoundError:
        raise PressError(f"{path} is missing") from None
    except Exception as error:  # nbformat raises many kinds; each means the same to the user
        raise PressError(f"{path} is not a notebook: {error}") from None


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

    @property
    def build(self) -> Path:
        """The folder of everything generated."""
        return self.root / "_build"

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

    @cached_property
    def version(self) -> str:
        """The book's version, as `helpers/__init__.py` says it; read, not imported."""
        path = self.root / "helpers" / "__init__.py"
        text = path.read_text(encoding="utf-8") if path.is_file() else ""
        found = re.search(r'^__version__ = "([^"]+)"$', text, re.MULTILINE)
        if not found:
            raise PressError('helpers/__init__.py lacks `__version__ = "…"`')
        return found.group(1)

    @property
    def release(self) -> str:
        """The tag of this version: what Colab clones and the launch buttons open."""
        return f"v{self.version}"

    @cached_property
    def chapters(self) -> list[Chapter]:
        """Every notebook three folders deep under `notebooks/`, in the book's order, what it lacks last."""
        paths = sorted((self.root / "notebooks").glob("*/*/*.ipynb"))
        found = [Chapter(self.root, path.parts[-3], path.parts[-2], path.stem) for path in paths]
        order = {name: place for place, name in enumerate(self.toc_files)}
        return sorted(found, key=lambda chapter: order.get(chapter.document, len(order)))

    def select(self, names: list[str] | None) -> list[Chapter]:
        """The chapters that the names mean (part, part/folder, part/folder/stem, stem or a path); all for none."""
        if not names:
            return self.chapters
        chosen = []
        for name in names:
            short = re.sub(r"^.*notebooks/|\.ipynb$|/$", "", name)
            hits = [c for c in self.chapters if short in (c.name, f"{c.part}/{c.folder}", c.part, c.stem)]
            if not hits:
                known = ", ".join(map(str, self.chapters)) or "none"
                raise PressError(f"no chapter is called {name!r}; there are: {known}")
            chosen += [chapter for chapter in hits if chapter not in chosen]
        return chosen

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
        path = self.root / "data" / "registry.tsv"
        if not path.is_file():
            return []
        with path.open(encoding="utf-8", newline="") as handle:
            return list(csv.DictReader(handle, delimiter="\t", quoting=csv.QUOTE_NONE))

    @cached_property
    def pins(self) -> dict[str, str]:
        """The version of every package that `requirements.txt` pins, by its name in lower case with hyphens."""
        path = self.root / "requirements.txt"
        text = path.read_text(encoding="utf-8") if path.is_file() else ""
        found = [REQUIREMENT.match(row.strip()) for row in text.splitlines()]
        return {plain_name(match.group(1)): match.group(2) for match in found if match}

    @cached_property
    def references(self) -> set[str]:
        """The keys of `book/references.bib`."""
        path = self.root / "book" / "references.bib"
        text = path.read_text(encoding="utf-8") if path.is_file() else ""
        return set(re.findall(r"^\s*@\w+\s*\{\s*([^,\s]+)\s*,", text, re.MULTILINE))

    def relative(self, path: Path) -> str:
        """The path below the root, with forward slashes."""
        return Path(path).resolve().relative_to(self.root).as_posix()
