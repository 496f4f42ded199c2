"""Synonyms that texts tell themselves: what stands in brackets right behind a word is often another name of it."""

from collections import Counter
from collections.abc import Iterable, Sequence

import regex

from text.dictionary import Dictionary, name_of

_BRACKETS = regex.compile(r"([\p{L}\p{M}][\p{L}\p{M}\p{N}]+)\(([^()]{2,80})\)")
_BETWEEN = regex.compile(r"[,;/·]|\bor\b|또는")
_LANGUAGE = regex.compile(r"^\s*\p{L}+(?:어|말|자)\s*:")  # "영어: United Nations"
_NAME = regex.compile(r"\p{L}[\p{L}\p{M}\p{N}.&'’-]+(?: [\p{L}\p{M}\p{N}.&'’-]+){0,2}")


def told_synonyms(texts: Iterable[str], least: int) -> Dictionary:
    """Return the groups that at least so many texts tell: a word with the names that stand in brackets behind it.

    No name is in two groups: what more texts tell goes first.
    """
    told = Counter(pair for text in texts for pair in dict.fromkeys(_pairs(text)))
    surest_first = sorted((pair for pair, count in told.items() if count >= least), key=lambda pair: -told[pair])
    return Dictionary(synonyms=tuple(tuple(group) for group in _groups(surest_first)))


def _pairs(text: str) -> Iterable[tuple[str, str]]:
    for word, inside in _BRACKETS.findall(text):
        for name in (_LANGUAGE.sub("", one).strip() for one in _BETWEEN.split(inside)):
            if _NAME.fullmatch(name) and name_of(name) != name_of(word):
                yield word, name


def _groups(pairs: Sequence[tuple[str, str]]) -> list[list[str]]:
    groups: dict[str, list[str]] = {}  # by the name of each member
    for word, name in pairs:
        if name_of(name) not in groups:
            group = groups.setdefault(name_of(word), [word])
            group.append(name)
            groups[name_of(name)] = group
    return [group for name, group in groups.items() if name == name_of(group[0])]
