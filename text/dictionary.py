"""A user dictionary: words that are cut no further, their parts, and words that mean the same.

It is one text in UTF-8, whose lines are what search engines have already:

    # what follows is no part of it
    세종시 세종 시                a word and, maybe, the parts it is made of (nori's user dictionary)
    블랙 펄<TAB>NNP<TAB>1.5       a word, its tag and, maybe, its score (Kiwi's); here alone it may hold spaces
    자동차, 차량, 승용차          words that mean the same: each is read as the first (Solr, Elasticsearch)
    휴대폰, 핸드폰 => 휴대전화    words that are read as another

Case and the spaces in a word tell no two words apart.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property

from data.cache import key_of

TAG = "NNP"  # of a word that is given none: a name
# Kiwi's tags without those that it finds by pattern: addresses, numbers in series, emoji
_TAGS = (
    "NNG NNP NNB NR NP VV VV-R VV-I VA VA-R VA-I VX VX-R VX-I VCP VCN MM MAG MAJ IC JKS JKC JKG JKO JKB JKV JKQ JX JC "
    "EP EF EC ETN ETM XPN XSN XSV XSA XSA-I XSM XR SF SP SS SSO SSC SE SO SW SL SH SN SB"
)
TAGS = frozenset(_TAGS.split())


@dataclass(frozen=True)
class Word:
    """A word that is one, with Kiwi's tag and score (the higher, the sooner it is found), and the parts that spell it.

    The tag is empty where none was given: it is `TAG` then.
    """

    form: str
    tag: str = ""
    score: float = 0.0
    parts: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False)
class Dictionary:
    """Words, and groups of synonyms, each of which is read as the first of its group; equal where the content is."""

    words: tuple[Word, ...] = ()
    synonyms: tuple[tuple[str, ...], ...] = ()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Dictionary) and self.fingerprint == other.fingerprint

    def __hash__(self) -> int:
        return hash(self.fingerprint)

    @cached_property
    def fingerprint(self) -> str:
        """What tells its content: neither the order of its lines is part of it, nor that of a group after its first."""
        words = sorted((word.form, word.tag or TAG, word.score, word.parts) for word in self.words)
        return key_of("dictionary", words, sorted((first, sorted(others)) for first, *others in self.synonyms))

    @cached_property
    def names(self) -> Mapping[str, str]:
        """Words of a group, as `name_of` has them, and what each of them is read as: the first of its group."""
        return {name_of(member): name_of(group[0]) for group in self.synonyms for member in group}

    @cached_property
    def parts(self) -> Mapping[str, tuple[str, ...]]:
        """Words, as `name_of` has them, and their parts: none where a word is never cut."""
        return {name_of(w.form): tuple(map(str.lower, w.parts or _words_of(w.form))) for w in self.words}


def name_of(word: str) -> str:
    """Return what tells a word from others: its letters in lower case, without spaces."""
    return "".join(word.lower().split())


def written(dictionary: Dictionary) -> str:
    """Return a dictionary as lines that are read as the same, without the comments of its file."""
    lines = [line for word in dictionary.words for line in _lines_of(word)]
    return "".join(f"{line}\n" for line in [*lines, *(", ".join(group) for group in dictionary.synonyms)])


def _words_of(form: str) -> tuple[str, ...]:
    words = tuple(form.split())
    return words if len(words) > 1 else ()


def _lines_of(word: Word) -> Iterable[str]:
    if word.tag or any(mark in word.form for mark in (" ", ",", "=>")):
        yield "\t".join([word.form, word.tag or TAG, *([repr(word.score)] if word.score else [])])
    elif not word.parts:
        yield word.form
    if word.parts:
        yield " ".join(["".join(word.parts), *word.parts])
