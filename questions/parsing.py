"""The questions in what a language model answered."""

import json
import re
from collections.abc import Iterator
from itertools import islice

from chat.endpoint import without_thoughts

_LONGEST, _SHORTEST = 300, 4  # characters of a question
_MOST_LISTS = 50  # looked for in an answer
_NUMBERED = re.compile(r"^\s*(?:[-*•]|\(?\d{1,2}[.):])\s*")
_DECODER = json.JSONDecoder()


def questions_in(answer: str, most: int) -> list[str]:
    """Return up to `most` different questions of an answer; none where it holds no list of them.

    Takes the first JSON list of texts, wherever it stands (some models say more than they were told to), or lines of
    which every one ends with a question mark once its number is taken away.
    """
    text = without_thoughts(answer)
    found = next(_lists(text), None) or _asking_lines(text)
    usable = (" ".join(one.split()) for one in found)
    return list(dict.fromkeys(one for one in usable if _SHORTEST <= len(one) <= _LONGEST))[:most]


def _lists(text: str) -> Iterator[list[str]]:
    for place in (match.start() for match in islice(re.finditer(r"\[", text), _MOST_LISTS)):
        try:
            value, _ = _DECODER.raw_decode(text, place)
        except (ValueError, RecursionError):
            continue
        if value and all(isinstance(one, str) for one in value):
            yield value


def _asking_lines(text: str) -> list[str]:
    lines = [_NUMBERED.sub("", line).strip().strip('"“”') for line in text.splitlines() if line.strip()]
    return lines if all(line.endswith(("?", "？")) for line in lines) else []
