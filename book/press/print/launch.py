"""Where a chapter can be run with one click: the addresses of Colab, Kaggle and Binder.

The services and the repository come from `_config.yml`; a service that it does not name has no button. All open the
notebook of the release, whose setup cell clones the same.
"""

from urllib.parse import quote

from ..repository import Chapter, Repository
from ..teach.kit import downloads
from ..teach.variants import KINDS


def addresses(repository: Repository, chapter: Chapter) -> dict[str, str]:
    """The address at which each service opens the chapter's notebook, by the service's name."""
    services = repository.config.get("launch_buttons") or {}
    own = repository.config.get("rebuilt") or {}
    release, name = repository.release, "/".join(repository.url.split("/")[-2:])
    path = f"{chapter.document}.ipynb"
    raw = f"https://raw.githubusercontent.com/{name}/{release}/{path}"
    found = {}
    if services.get("colab_url"):
        found["Colab"] = f"{services['colab_url'].rstrip('/')}/github/{name}/blob/{release}/{path}"
    if own.get("kaggle_url"):
        found["Kaggle"] = f"{own['kaggle_url'].rstrip('/')}/kernels/welcome?src={quote(raw, safe=':/')}"
    if services.get("binderhub_url"):
        found["Binder"] = f"{services['binderhub_url'].rstrip('/')}/v2/gh/{name}/{release}?urlpath=tree/{path}"
    return found


def buttons(repository: Repository, chapter: Chapter) -> str:
    """A row of links, one for each service; one line of HTML."""
    links = [f'<a href="{url}">{service}</a>' for service, url in addresses(repository, chapter).items()]
    return f'<p class="rebuilt-launch">Run it in {" ".join(links)}</p>' if links else ""


def for_class(chapter: Chapter, whole: bool = True) -> str:
    """Rows of links to what a class needs, which the build puts into `_data`; one line of HTML for each row.

    `whole`: with slides, handout, run-sheet and zip, which a book of some chapters leaves out.
    """
    found = downloads(chapter, whole)
    rows = {"Notebooks for a class": list(KINDS), "For the teacher": [name for name in found if name not in KINDS]}
    shown = []
    for words, names in rows.items():
        links = [f'<a href="../../../{found[name]}"{_opened(name)}>{name}</a>' for name in names]
        shown += [f'<p class="rebuilt-launch">{words} {" ".join(links)}</p>'] if links else []
    return "\n".join(shown)


def _opened(name: str) -> str:
    """Slides and the run-sheet open in the browser; everything else is saved."""
    return "" if name in ("slides", "run-sheet") else " download"
