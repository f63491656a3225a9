"""An executed notebook made fit for a page: no progress bars, no bookkeeping of tools, no folders of this machine."""

import re

import nbformat

BAR = re.compile(r"\d+%\|.*\|\s*\S+/\S+ \[|\d+(\.\d+)?\w*\s?(it|B) \[\d+:\d+")
CELL_FILE = re.compile(r"[^\s'\"]*/ipykernel_\d+/\d+\.py")
TOOL_METADATA = ("papermill", "execution", "collapsed", "scrolled", "widgets")


def tidy(notebook: nbformat.NotebookNode, names: dict[str, str]) -> nbformat.NotebookNode:
    """The notebook without progress bars, widget states, traces of papermill and folders of this machine.

    `names` says what stands for each folder in what the page prints; the longest has to come first. The
    notebook is changed in place.
    """
    from nbconvert.preprocessors.coalescestreams import CoalesceStreamsPreprocessor

    for owner in (notebook, *notebook.cells):
        for name in set(TOOL_METADATA) & set(owner.metadata):
            del owner.metadata[name]
    for cell in notebook.cells:
        if cell.cell_type == "code":
            cell.outputs = [output for output in cell.outputs if _cleaned(output, names)]
    return CoalesceStreamsPreprocessor().preprocess(notebook, {})[0]  # so that a page shows one block of each


def _cleaned(output: nbformat.NotebookNode, names: dict[str, str]) -> bool:
    """Whether anything is left of an output; what is left names no folder of this machine."""
    data = output.get("data", {})
    for kind, content in data.items():
        if kind.startswith("text/") and isinstance(content, str):
            data[kind] = _renamed(content, names)
    if output.output_type == "stream":
        kept = "".join(line for line in output.text.splitlines(keepends=True) if not BAR.search(line))
        output.text = _renamed(kept, names)
    return bool(output.get("text", "more")) and not any("jupyter.widget" in kind for kind in data)


def _renamed(text: str, names: dict[str, str]) -> str:
    if "/ipykernel_" in text:  # the search is slow on the long lines of an embedded image
        text = CELL_FILE.sub("this cell", text)
    for folder, name in names.items():
        text = text.replace(folder, name)
    return text


def stderr_lines(notebook: nbformat.NotebookNode) -> list[tuple[int, str]]:
    """(cell, first line) of each text that the run wrote to stderr: warnings that readers would see."""
    return [
        (index, output.text.strip().splitlines()[0])
        for index, cell in enumerate(notebook.cells)
        for output in cell.get("outputs", [])
        if output.output_type == "stream" and output.name == "stderr" and output.text.strip()
    ]
