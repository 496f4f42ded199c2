"""Text that is no data: pointers to files, web pages, and structures that would be nonsense as passages."""

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import islice

from mrc_workbench.data.problems import DataError, ProblemCode

_LFS = re.compile(r"version https://(?:git-lfs\.github\.com|hawser\.github\.com)/spec/")
_LFS_SIZE = re.compile(r"^size (\d+)\s*$", re.MULTILINE)
_ANNEX = re.compile(r"(?:\.\./)*(?:\.git)?/annex/objects/\S+\s*")
_WEB_PAGE = re.compile(r"\s*(?:<\?xml[^>]*>\s*)?(?:<!--.*?-->\s*)*<(?:!doctype\s+html|html|head|body)\b", re.I | re.S)
_TITLE = re.compile(r"<title[^>]*>\s*([^<]{1,200}?)\s*</title>", re.IGNORECASE)
_MOST_LINES = 200
_LEAST_LINES = 3
_REPEATED = 0.9  # fraction of the lines in which a delimiter stands equally often
# between fields, and seldom in prose
_SEPARATORS = re.compile("[#$%&@^~|]{2,}|[|^~]|::+|;;|[=-]>|[\t;¦¬§│‖\x01\x02\x1c-\x1f]")
_JUDGEMENTS = "a list of judgements for learning to rank (grade, qid, document); give it together with the corpus"
# what most lines look like: those of the first kind may pass for a table, so they are looked for before one is
_FIRST_STRUCTURES = (
    (re.compile(r"\d+\s+qid:\S+"), _JUDGEMENTS),
    (re.compile(r"\s*(?:insert into|create table|drop table)\b", re.IGNORECASE), "an SQL dump"),
)
_OTHER_STRUCTURES = (
    (re.compile(r"\s*(?:- )?[\w.\-]+:(?:\s|$)"), "lines of keys and values, such as YAML"),
    (re.compile(r"[A-Z][A-Z0-9] {2}- "), "a list of references (RIS)"),
    (re.compile(r"\s*\w+\s*=\s*[{\"]"), "BibTeX or settings"),
    (re.compile(r"\s*</?[a-z][\w:-]*(?:\s[^<>]*)?/?>", re.IGNORECASE), "markup (XML or HTML)"),
)


def refuse_pointer(start: str) -> None:
    """Raise `DataError` if a text only points to the file."""
    if _LFS.match(start):
        size = _LFS_SIZE.search(start)
        raise DataError.of(ProblemCode.LFS_POINTER, size=f"{int(size[1]):,}" if size else "?")
    if _ANNEX.match(start) and len(start.split("\n")) <= 2:
        raise DataError.of(ProblemCode.ANNEX_POINTER)


def refuse_web_page(start: str) -> None:
    """Raise `DataError` if a text is a web page, as servers send it in place of a file."""
    if _WEB_PAGE.match(start[:5000]):
        title = _TITLE.search(start)
        raise DataError.of(ProblemCode.WEB_PAGE, title=f": {title[1]}" if title else "")


def refuse_structure(head: str) -> None:
    """Raise `DataError` if lines have a structure that may pass for a table, and is none."""
    _refuse(_lines(head), _FIRST_STRUCTURES)


def refuse_lines(head: str) -> None:
    """Raise `DataError` if lines that are no table have a delimiter or a structure: no line of them is a passage."""
    lines = _lines(head)
    _refuse(lines, _OTHER_STRUCTURES)
    if (delimiter := _repeated(lines)) is not None:
        raise DataError.of(ProblemCode.UNKNOWN_DELIMITER, delimiter=delimiter)


def _lines(head: str) -> list[str]:
    """Return the first lines that are neither blank nor comments."""
    lines = (line for line in head[:200_000].split("\n") if line.strip() and not line.startswith("#"))
    return list(islice(lines, _MOST_LINES))


def _refuse(lines: Sequence[str], structures: Iterable[tuple[re.Pattern[str], str]]) -> None:
    for pattern, found in structures:
        if sum(pattern.match(line) is not None for line in lines) > 0.5 * max(1, len(lines)):
            raise DataError.of(ProblemCode.UNKNOWN_STRUCTURE, found=found)


def _repeated(lines: Sequence[str]) -> str | None:
    """Return a separator that stands equally often inside nearly every line."""
    if len(lines) < _LEAST_LINES:
        return None
    counts: dict[str, Counter[int]] = {}
    for line in lines:
        for separator, count in Counter(_SEPARATORS.findall(line.strip()[1:-1])).items():
            counts.setdefault(separator, Counter())[count] += 1
    for separator, by_count in counts.items():
        if max(by_count.values()) >= _REPEATED * len(lines):
            return separator if separator.isprintable() else repr(separator)
    return None
