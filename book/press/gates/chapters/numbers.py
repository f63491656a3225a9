"""The gate on typed numbers: a measured value comes from a receipt or a cell, never from the keyboard.

What looks measured: a number with a unit of time below a minute, of throughput, of ratio or of share, and a
score with decimals. Inputs (360 Hz, 421 samples, 30 minutes of ECG, 10 s of speech) do not. What is meant as
an input all the same says so: `<!-- typed: reason -->` at the end of its line, or of its paragraph.
"""

import re
from collections.abc import Iterator

from ...repository import Repository
from .. import Problem, gate, markdown
from ..python import argument, calls, literal_text, parse

NUMBER = r"(?<![\w.,#/=])[~≈]?\d+(?:[.,]\d+)*(?:\s?[–-]\s?\d+(?:[.,]\d+)*)?(?:e[+-]?\d+)?"
WORD = r"\b(?:two|three|four|five|six|seven|eight|nine|ten|twelve|twenty|thirty|fifty|(?:a )?hundred|(?:a )?thousand)"
SIZE = r"(?:\s?(?:thousand|million|billion|trillion))?"
GAP = r"[\s\u00a0\u202f]?"
INPUTS = r"ECG|EEG|audio|speech|sound|music|signal|video|data|recordings?|stream|silence|samples|film|history"
INPUT_NOUNS = r"windows?|clips?|segments?|excerpts?|frames?|hops?|recordings?|strips?|streams?"
TIME_INPUT = rf"(?!\s+of\s+(?:an? |the |its |each )?(?:{INPUTS})\b)(?!\s+(?:{INPUT_NOUNS})\b)"
SECONDS = r"(?:ns|µs|μs|us|ms|s|secs?|(?:milli|micro|nano)?seconds?)\b"
PER_SECOND = r"(?:/\s?s\b|/\s?second\b|\s?(?:per|a|each|every)\ssecond\b|\s?s⁻¹)"
INPUT_RATES = r"(?:samples?|frames?|beats?|cycles?|points?|hops?|times|degrees?|revolutions?)\b"
FASTER = r"(?:faster|slower|quicker|as fast|as slow|as quick|the speed|the throughput|less time|more time)"
SCORES = r"(?:precision|recall|accuracy|F1|AUC|WER|CER|PSNR|BLEU|RMSE|word error rate|error rate|speed-?up)"
NOT_SHARES = r"(?!\s?(?:confidence|quantile|percentile|interval|overlap))"

MEASURED = {
    "a time": re.compile(rf"(?!(?:1[5-9]|20)\d0s\b){NUMBER}{SIZE}{GAP}{SECONDS}{TIME_INPUT}"),
    "a throughput": re.compile(
        rf"{NUMBER}{SIZE}{GAP}(?:[kMGTPE]i?)?(?:B|[Bb]ytes?|bits?|FLOPS?|FLOPs?|OPS?){GAP}(?:{PER_SECOND}|ps\b)"
        rf"|{NUMBER}{GAP}[kMGTPE]?(?:FLOPS|flops)\b"
    ),
    "a rate": re.compile(
        rf"{NUMBER}(?:{GAP}[kMG])?(?:\s(?:thousand|million|billion|trillion)\s[\w-]+|\s(?!{INPUT_RATES})[A-Za-z-]+"
        rf"(?:\s(?!{INPUT_RATES})[a-z]+)?)\s?{PER_SECOND}|{NUMBER}{SIZE}{PER_SECOND}"
    ),
    "a ratio": re.compile(
        rf"{NUMBER}{GAP}(?:×|x\b)(?!{GAP}\d)(?!\s?[A-Z]\b)|(?:{NUMBER}|{WORD})\s+times\s+{FASTER}"
        rf"|\b(?:twice|thrice)\s+(?:as (?:fast|slow|quick)|the (?:speed|throughput))",
        re.IGNORECASE,
    ),
    "a share": re.compile(rf"{NUMBER}{GAP}(?:%|percent\b|per cent\b){NOT_SHARES}"),
    "a score": re.compile(
        rf"\b{SCORES}\b(?:[ -](?:score|rate|of|is|was|reaches|at|about|around|near|to|=|:))*\s?[≈~=:]?\s?\d*\.\d+", re.I
    ),
}
ESCAPE = re.compile(r"<!--\s*typed:\s*(.*?)\s*-->[ \t]*$", re.MULTILINE)
SPLITS = re.compile(r"(?<=\S)\n<!--(?:[^\n]|\n(?!\n))*?-->(?:[ \t]*\n)?[ \t]*\S")
QUOTED = re.compile(r"[\"“„]([^\"“”]+)[\"”]")


@gate(
    "numbers",
    "no measured number is typed outside a quoted claim",
    why="a typed number contradicts the output below it as soon as code or machine change",
    mend="show it from the run (show.md, receipts), quote the claim (> or the card's words in quotation marks), or "
    "say why it is no measurement: <!-- typed: reason --> at the end of the line or paragraph",
)
def numbers(repository: Repository) -> Iterator[Problem]:
    """Numbers with units of measured results, in Markdown, alt texts and templates of `show.md`."""
    all_quotes = []
    for chapter in repository.chapters:
        where = repository.relative(chapter.notebook)
        claims = chapter.card.get("claims") if chapter.card_path.exists() else []
        quotes = [str(claim.get("quote", "")) for claim in claims or [] if isinstance(claim, dict)]
        all_quotes += quotes
        for index, cell in enumerate(chapter.cells):
            texts = [cell.source] if cell.cell_type == "markdown" else list(_texts_in_code(cell.source))
            for text in texts if cell.cell_type != "raw" else []:
                yield from (Problem(where, what, index, line) for line, what in typed(text, quotes))
    for page in repository.pages:
        found = typed(page.read_text(encoding="utf-8"), all_quotes)
        yield from (Problem(repository.relative(page), what, line=line) for line, what in found)


def _texts_in_code(source: str) -> Iterator[str]:
    """The prose that a cell shows: alt texts, captions, Markdown."""
    tree = parse(source)
    for name, call in calls(tree, "show", "md", "Markdown"):
        wanted = [(0, "template")] if name != "plot.show" else [(1, "alt"), (2, "caption")]
        for position, keyword in wanted if name in ("plot.show", "show.md", "md", "Markdown") else []:
            text = literal_text(argument(call, position, keyword))
            if text:
                yield text


def typed(text: str, quotes: list[str]) -> list[tuple[int, str]]:
    """(line, what is wrong) of each typed number in the text that is neither quoted nor explained."""
    excused, problems = _excused(text)
    split = "a comment that begins a line splits its paragraph in two; let it stand behind its sentence"
    problems += [(text.count("\n", 0, match.start()) + 2, split) for match in SPLITS.finditer(text)]
    for first, words in markdown.prose(text):
        plain = _without_quotes(words, quotes)
        for what, pattern in MEASURED.items():
            for match in pattern.finditer(plain):
                line = first + plain.count("\n", 0, match.start())
                if line not in excused:
                    problems.append((line, f"“{' '.join(match.group().split())}” looks like {what} that was measured"))
    return sorted(set(problems))


def _without_quotes(plain: str, quotes: list[str]) -> str:
    """The text with the words of a claim blanked where they stand in quotation marks."""
    known = [_letters(quote) for quote in quotes]

    def blanked(match: re.Match) -> str:
        said = _letters(match.group(1))
        quoted = bool(said) and any(said in quote for quote in known)
        return re.sub(r"[^\n]", " ", match.group()) if quoted else match.group()

    return QUOTED.sub(blanked, plain)


def _letters(text: str) -> str:
    return " ".join(re.sub(r"[^\w\s]", " ", text.lower()).split())


def _excused(text: str) -> tuple[set[int], list[tuple[int, str]]]:
    """The lines that an escape covers, and the escapes that give no reason.

    An escape covers its line; at the end of a paragraph or list item it covers all of it. A table row is a line.
    """
    rows = text.split("\n")
    excused, problems = set(), []
    for match in ESCAPE.finditer(text):
        line = text.count("\n", 0, match.end()) + 1
        if len(match.group(1)) < 8:
            problems.append((line, "an escape without a reason: <!-- typed: why this is no measurement -->"))
        excused |= {line, text.count("\n", 0, match.start()) + 1}
        last = line >= len(rows) or not rows[line].strip() or _starts_block(rows[line])
        while last and line > 1 and rows[line - 2].strip() and not _starts_block(rows[line - 1]):
            line -= 1
            excused.add(line)
    return excused, problems


def _starts_block(row: str) -> bool:
    return bool(re.match(r"\s*([-*+|:>#]|\d+[.)])", row))
