"""In the reader's browser: a learner's code before the checker of its exercise."""

import contextlib
import io
import json
import traceback

LONGEST = 4000  # letters of what was printed


def tried(code: str, checker: str, call: str) -> str:
    """As JSON whether the learner's code passes the checker (`right`), the words to it (`said`), what was printed."""
    names, printed, said = {"__name__": "__main__"}, io.StringIO(), None
    try:
        with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(printed):
            exec(f"from helpers import check\n{checker}", names)
            exec(compile(code, "your code", "exec"), names)
            if (name := call.partition("(")[2].rstrip(")")) not in names:
                raise AssertionError(f"Nothing is named {name}: keep the name of the task")
            exec(call, names)
    except (AssertionError, ModuleNotFoundError) as problem:
        said, why = str(problem) or "AssertionError", problem.__cause__ or problem  # of the function that was checked
        if isinstance(why, ModuleNotFoundError):
            said = f"There is no {why.name} in this page, only Python's own library: write it in plain Python."
    except SyntaxError as error:
        said = f"Python cannot read line {error.lineno}: {error.msg}"
    except BaseException as error:  # SystemExit, too
        own = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == "your code"]
        said = f"Your code stopped with {type(error).__name__}{f' in line {own[-1]}' if own else ''}: {error}"
    text = printed.getvalue()
    shown = text if len(text) <= LONGEST else f"{text[:LONGEST]}\n… and {len(text) - LONGEST:,} letters more"
    return json.dumps({"right": said is None, "said": said or "", "printed": shown})
