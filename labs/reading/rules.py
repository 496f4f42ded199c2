"""When two answers are the same, and how much of one lies in the other: by the rules of each field's published script.

All three fold case, take ASCII punctuation away and make runs of white space one space. What they do besides, and what
they count, is theirs alone:
- KorQuAD 1.0 (Lim et al. 2019): quotation marks and brackets, Korean ones among them, become spaces first. F1 counts
  characters, spaces not among them, since a Korean word carries its particle.
- SQuAD (Rajpurkar et al. 2016, 2018): a, an and the are taken away. F1 counts words.
- KLUE-MRC (Park et al. 2021): nothing besides. ROUGE-W, as their script has it, is the F1 of the longest run of
  characters, spaces among them, that both answers have.

A question without answer is answered rightly by no answer, the empty text, and by nothing else. Where the rules leave
nothing of both texts, each script says something of its own, and so do these functions. Files of answers are in
KorQuAD's and SQuAD's official form, one JSON object with a text for each id.
"""

import json
import re
import string
from collections import Counter
from collections.abc import Mapping, Sequence
from difflib import SequenceMatcher
from enum import StrEnum
from functools import lru_cache
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from mrc_workbench.data.problems import Failure
from mrc_workbench.data.workspace import write_text


class ReadingError(Failure):
    """Answers that cannot be generated, read or judged; `code` is a key of `reading.` in the locale files."""


_PUNCTUATION = str.maketrans("", "", string.punctuation)
_MARKS = str.maketrans(dict.fromkeys("'\"《》<>〈〉()‘’", " "))
# what their script matches: one of the marks with all of ()‘’ after it, and so next to nothing
_KLUE_MARKS = re.compile(r"['\"《》<>〈〉]\(\)‘’")
_ARTICLES = re.compile(r"\b(a|an|the)\b")


class Rules(StrEnum):
    """Whose rules say what is right."""

    KORQUAD = "korquad"
    SQUAD = "squad"
    KLUE = "klue"

    @property
    def overlap_name(self) -> str:
        """As this field calls the share that two answers have in common."""
        return "rouge_w" if self is Rules.KLUE else "f1"


def normalized(answer: str, rules: Rules) -> str:
    """The text by which two answers are compared."""
    text = answer.lower()
    if rules is Rules.KORQUAD:
        text = text.translate(_MARKS)
    elif rules is Rules.KLUE:
        text = _KLUE_MARKS.sub(" ", text)
    text = text.translate(_PUNCTUATION)
    if rules is Rules.SQUAD:
        text = _ARTICLES.sub(" ", text)
    return " ".join(text.split())


def judged(said: str, right: Sequence[str], rules: Rules) -> tuple[float, float]:
    """Exact match and overlap, 0 to 1, with whichever right answer fits best; without any, no answer is right."""
    answer = normalized(said, rules)
    wanted = _wanted(tuple(right), rules)
    if not wanted:
        return (same := float(not answer)), same
    return float(answer in wanted), max(_overlap(answer, one, rules) for one in wanted)


@lru_cache(maxsize=1 << 16)
def _wanted(right: tuple[str, ...], rules: Rules) -> tuple[str, ...]:
    every = tuple(dict.fromkeys(normalized(one, rules) for one in right))
    if rules is Rules.SQUAD:  # its script of 2018 leaves out right answers that hold nothing but what is taken away
        return tuple(filter(None, every))
    return every


def _overlap(said: str, right: str, rules: Rules) -> float:
    """F1 of what both have in common: 2 P R / (P + R) with P = common / said and R = common / right."""
    if rules is Rules.KLUE:
        if not said or not right:
            return float(said == right)
        common, total = SequenceMatcher(None, said, right).find_longest_match().size, len(said) + len(right)
    else:
        parts: list[Sequence[str]] = [
            one.split() if rules is Rules.SQUAD else one.replace(" ", "") for one in (said, right)
        ]
        common, total = sum((Counter(parts[0]) & Counter(parts[1])).values()), sum(map(len, parts))
    return 2 * common / total if common else 0.0


_FORM: TypeAdapter[dict[str, str]] = TypeAdapter(dict[str, str])


def read_predictions(path: Path) -> dict[str, str]:
    """Read the answers of a file; the empty text is "no answer". Raises `ReadingError`, `OSError`."""
    try:
        return _FORM.validate_json(path.read_bytes(), strict=True)
    except ValidationError as error:
        first = error.errors()[0]
        where = "".join(f" at {place!r}" for place in first["loc"][:1])
        form = 'one object of question ids and answers is needed, as {"q1": "서울", "q2": ""}'
        raise ReadingError("bad_predictions", f"{path.name}{where}: {first['msg']}; {form}") from error


def write_predictions(answers: Mapping[str, str], path: Path) -> None:
    """Write answers so that `read_predictions` and the published scripts read them. Raises `OSError`."""
    write_text(path, json.dumps(answers, ensure_ascii=False, indent=1))
