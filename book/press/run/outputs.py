"""An executed notebook made fit for a page: no progress bars, no bookkeeping of tools."""

import re

import nbformat

BAR = re.compile(r"\d+%\|.*\|\s*\S+/\S+ \[|\d+(\.\d+)?\w*\s?(it|B) \[\d+:\d+")
CELL_FILE = re.compile(r"[^\s'\"]*/ipykernel_\d+/\d+\.py")
TOOL_METADATA = ("papermill", "execution", "collapsed", "scrolled")


def tidy(notebook: nbformat.NotebookNode, names: dict[str, str]) -> nbformat.NotebookNode:
    """The notebook without progress bars, widget states, traces of papermill and folders of this machine.

    `names` says what stands for each folder in what the page prints; the longest has to come first. The
    notebook is changed in place.
    """
    for name in ("papermill", "widgets"):
        notebook.metadata.pop(name, None)
    for cell in notebook.cells:
        for name in TOOL_METADATA:
            cell.metadata.pop(name, None)
        if cell.cell_type == "code":
            cell.outputs = _merged([output for output in map(_without_bars, cell.outputs) if output])
            for output in cell.outputs:
                _rename(output, names)
    return notebook


def stderr_lines(notebook: nbformat.NotebookNode) -> list[tuple[int, str]]:
    """(cell, first line) of each text that the run wrote to stderr: warnings that readers would see."""
    return [
        (index, output.text.strip().splitlines()[0])
        for index, cell in enumerate(notebook.cells)
        for output in cell.get("outputs", [])
        if output.output_type == "stream" and output.name == "stderr" and output.text.strip()
    ]


def _without_bars(output: nbformat.NotebookNode) -> nbformat.NotebookNode | None:
    if output.output_type in ("display_data", "execute_result"):
        return None if any("jupyter.widget" in kind for kind in output.data) else output
    if output.output_type != "stream" or not BAR.search(output.text):
        return output
    kept = [line for line in re.split(r"\r|\n", output.text) if line.strip() and not BAR.search(line)]
    output.text = "".join(f"{line}\n" for line in kept)
    return output if kept else None


def _rename(output: nbformat.NotebookNode, names: dict[str, str]) -> None:
    def renamed(text: str) -> str:
        if "/ipykernel_" in text:  # the search is slow on the long lines of an embedded image
            text = CELL_FILE.sub("this cell", text)
        for folder, name in names.items():
            text = text.replace(folder, name)
        return text

    if output.output_type == "stream":
        output.text = renamed(output.text)
    for kind, content in output.get("data", {}).items():
        if kind.startswith("text/") and isinstance(content, str):
            output.data[kind] = renamed(content)


def _merged(outputs: list) -> list:
    """The outputs with neighbouring pieces of one stream joined, so that a page shows one block."""
    merged: list = []
    for output in outputs:
        before = merged[-1] if merged else None
        same = before is not None and output.output_type == before.output_type == "stream"
        if same and output.name == before.name:
            before.text += output.text
        else:
            merged.append(output)
    return merged
