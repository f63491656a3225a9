"""`press branch`: the branch that the book's buttons open and setup cells clone: the last commit's tree with the
student's notebook (see `teach.variants`) in the place of each source, and its module beside it."""

import os
import tempfile
from pathlib import Path

import nbformat

from ..errors import PressError, finished
from ..repository import Repository
from ..teach import variants


def files(repository: Repository) -> dict[str, str]:
    """What differs from the release, by its path: the students' notebooks, and the modules beside them."""
    found = {}
    for chapter in repository.chapters:
        found[f"{chapter.document}.ipynb"] = nbformat.writes(variants.variant(chapter, "student")) + "\n"
        found[repository.relative(chapter.home / f"start_here_{chapter.stem}.py")] = variants.module(chapter)
    return found


def make(repository: Repository, store: Path | None = None) -> str:
    """The commit that `repository.branch` names in the git repository `store` (default: this one), of HEAD's date."""
    environment = {**os.environ, "GIT_DIR": str(store)} if store else {**os.environ}

    def git(*words: str, **options: object) -> str:
        told = ("the students' branch cannot be made", "git", *words)
        return finished(*told, cwd=repository.root, env=environment, **options).strip()

    name, address, date = git("show", "-s", "--format=%an%n%ae%n%cI", "HEAD").splitlines()
    for who in ("AUTHOR", "COMMITTER"):
        environment |= {f"GIT_{who}_NAME": name, f"GIT_{who}_EMAIL": address, f"GIT_{who}_DATE": date}
    with tempfile.TemporaryDirectory(prefix="press-branch-") as scratch:
        environment |= {"GIT_INDEX_FILE": str(Path(scratch, "index"))}
        git("read-tree", "HEAD")
        for path, text in files(repository).items():
            blob = git("hash-object", "-w", "--stdin", input=text)
            git("update-index", "--add", "--cacheinfo", f"100644,{blob},{path}")
        tree = git("write-tree")
    commit = git("commit-tree", tree, "-p", "HEAD", "-m", f"The students' notebooks of {repository.release}")
    git("update-ref", f"refs/heads/{repository.branch}", commit)
    return commit


def branch(repository: Repository) -> None:
    """Make the branch and say what to do with it; PressError where something is not committed."""
    if finished("no git here", "git", "-C", repository.root, "status", "--porcelain").strip():
        raise PressError("the branch is made of the last commit, and something is not committed: commit it first")
    print(f"{repository.branch} is now {make(repository)[:12]}; push it together with the tag {repository.release}")
