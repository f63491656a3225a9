"""How many lines of a Python file hold code, for the article's row on lines."""

import ast
import io
import tokenize
from pathlib import Path


def lines_of_code(path):
    """The lines of a Python file that hold code: neither blank, comment nor docstring."""
    text = Path(path).read_text(encoding="utf-8")
    docs = set()
    for node in ast.walk(ast.parse(text)):
        body = getattr(node, "body", None)
        if isinstance(body, list) and body and isinstance(body[0], ast.Expr):
            value = body[0].value
            if isinstance(value, ast.Constant) and isinstance(value.value, str):
                docs |= set(range(value.lineno, value.end_lineno + 1))
    nothing = (tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT)
    nothing = (*nothing, tokenize.DEDENT, tokenize.ENDMARKER)
    held = set()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type not in nothing:
            held |= set(range(token.start[0], token.end[0] + 1))
    return len(held - docs)
