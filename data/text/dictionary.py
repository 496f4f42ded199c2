"""A user dictionary: words that are not split, their parts, and synonyms.

It is a UTF-8 text with the line formats of search engines:

    # a comment
    세종시 세종 시                a word and, optionally, its parts (nori's user dictionary)
    블랙 펄<TAB>NNP<TAB>1.5       a word, possibly with spaces, its tag and, optionally, its score (Kiwi's)
    자동차, 차량, 승용차          synonyms: each is replaced by the first (Solr, Elasticsearch)
    휴대폰, 핸드폰 => 휴대전화    words that are replaced by another

Words are compared without case and spaces. Every wrong line is reported with its row. Dictionaries are stored in the
workspace; an edited dictionary is stored as a new one, so results with the old one stay.
"""

import codecs
import tomllib
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import ClassVar, Self

import regex

from mrc_workbench.data.cache import is_intact, key_of, seal
from mrc_workbench.data.formats.tables import display_text
from mrc_workbench.data.problems import Failure
from mrc_workbench.data.store import NOTE, StoredCollection, StoredItem, existing_file

_MESSAGES = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))


class DictionaryError(Failure):
    """A dictionary that cannot be used; `code` is a key of `dictionary.` in the locale files.

    The detail `row` is the wrong line, from 1; `others` are the errors of other lines, in order.
    """

    others: Sequence["DictionaryError"] = ()

    @classmethod
    def of(cls, code: str, /, **details: str | int) -> Self:
        return cls(code, _MESSAGES[code].format(**details), **details)


TAG = "NNP"  # the default: proper noun
# Kiwi's tags without those for patterns (URLs, serial numbers, emoji)
_TAGS = (
    "NNG NNP NNB NR NP VV VV-R VV-I VA VA-R VA-I VX VX-R VX-I VCP VCN MM MAG MAJ IC JKS JKC JKG JKO JKB JKV JKQ JX JC "
    "EP EF EC ETN ETM XPN XSN XSV XSA XSA-I XSM XR SF SP SS SSO SSC SE SO SW SL SH SN SB"
)
TAGS = frozenset(_TAGS.split())


@dataclass(frozen=True)
class Word:
    """A word with Kiwi's tag (`TAG` if empty), its score (words with higher scores are preferred) and its parts."""

    form: str
    tag: str = ""
    score: float = 0.0
    parts: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False)
class Dictionary:
    """Words, and groups of synonyms, which are replaced by the first of their group."""

    words: tuple[Word, ...] = ()
    synonyms: tuple[tuple[str, ...], ...] = ()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Dictionary) and self.fingerprint == other.fingerprint

    def __hash__(self) -> int:
        return hash(self.fingerprint)

    @cached_property
    def fingerprint(self) -> str:
        """The key of the content; it does not depend on the order of lines and of a group's other members."""
        words = sorted((word.form, word.tag or TAG, word.score, word.parts) for word in self.words)
        return key_of("dictionary", words, sorted((first, sorted(others)) for first, *others in self.synonyms))

    @cached_property
    def names(self) -> Mapping[str, str]:
        """The normalized words of all groups, each with the normalized first word of its group."""
        return {normalize_word(member): normalize_word(group[0]) for group in self.synonyms for member in group}

    @cached_property
    def parts(self) -> Mapping[str, tuple[str, ...]]:
        """The parts of each normalized word, empty for a word that is never split."""
        return {normalize_word(w.form): tuple(map(str.lower, w.parts or _several(w.form.split()))) for w in self.words}


def normalize_word(word: str) -> str:
    """Normalize a word for comparisons: lower case, no spaces."""
    return "".join(word.lower().split())


def format_dictionary(dictionary: Dictionary) -> str:
    """Return the lines of a dictionary, without the comments of its file."""
    lines = list[str]()
    for word in dictionary.words:
        if word.tag or any(mark in word.form for mark in (" ", ",", "=>")):
            lines.append("\t".join([word.form, word.tag or TAG, *([repr(word.score)] if word.score else [])]))
        elif not word.parts:
            lines.append(word.form)
        if word.parts:
            lines.append(" ".join(["".join(word.parts), *word.parts]))
    return "".join(f"{line}\n" for line in [*lines, *(", ".join(group) for group in dictionary.synonyms)])


def _several(words: Sequence[str]) -> tuple[str, ...]:
    return tuple(words) if len(words) > 1 else ()


MAX_BYTES = 16_000_000
MAX_LINES = 100_000
MAX_LINE_CHARACTERS = 5_000
MAX_WORD_CHARACTERS = 50
MAX_SCORE = 100.0  # the lowest score is the negative
MAX_REPORTED_LINES = 100

# control characters, surrogates, private use, invisible characters, and those with a meaning for search engines
_INVALID = regex.compile(r"[[\p{C}--\p{Cn}]--[\t\u200C\u200D]]|[\u2028\u2029\\]", regex.VERSION1)
_COMMENT = regex.compile(r"(?:^|(?<=\s))#.*")
_SEPARATOR = regex.compile(r"\t|(?:^|\s)#")
_ENDS = regex.compile(r"\r\n|\r|\n")
_LETTER = regex.compile(r"[\p{L}\p{N}]")


def read_dictionary(content: bytes) -> Dictionary:
    """Read a dictionary. Raises `DictionaryError` for the first line that is wrong; it holds the others."""
    if len(content) > MAX_BYTES:
        raise DictionaryError.of("too_many_bytes", size=len(content), limit=MAX_BYTES)
    content = content.removeprefix(codecs.BOM_UTF8)
    try:
        lines = _ENDS.split(unicodedata.normalize("NFC", content.decode()))
    except UnicodeDecodeError as error:
        row = len(_ENDS.findall(content[: error.start].decode())) + 1
        raise DictionaryError.of("not_utf8", row=row, byte=f"0x{content[error.start]:02X}") from error
    if len(lines) > MAX_LINES + 1:  # the text after the last line break is empty
        raise DictionaryError.of("too_many_lines", limit=MAX_LINES)
    parser = _DictionaryParser()
    for row, line in enumerate(lines, 1):
        parser.add(row, line)
    return parser.dictionary()


def open_dictionary(path: Path) -> Dictionary:
    """Read a dictionary from a file. Raises `DictionaryError`."""
    try:
        if not path.is_file():
            raise DictionaryError.of("unreadable", name=display_text(path.name, 80))
        with path.open("rb") as file:
            content = file.read(MAX_BYTES + 1)
    except (OSError, ValueError) as error:
        raise DictionaryError.of("unreadable", name=display_text(path.name, 80)) from error
    return read_dictionary(content)


def with_words(dictionary: Dictionary, words: Iterable[Word]) -> Dictionary:
    """Return a dictionary with more words. Raises `DictionaryError` with the row in `format_dictionary`."""
    more = tuple(words)
    for word in more:
        _parse_form(word.form, 1)
        for text in (word.form, word.tag, *word.parts):
            _require_valid(text, 1)
            if separator := _SEPARATOR.search(text):
                raise DictionaryError.of("character", row=1, found=repr(separator.group()))
    return with_lines(dictionary, format_dictionary(Dictionary(more)))


def with_lines(dictionary: Dictionary, lines: str) -> Dictionary:
    """Return a dictionary with more lines, such as synonyms. Raises `DictionaryError` as `with_words` does."""
    return read_dictionary((format_dictionary(dictionary) + lines).encode(errors="replace"))


@dataclass
class _DictionaryParser:
    """The words and synonyms read so far, with their rows."""

    words: dict[str, tuple[Word, int]] = field(default_factory=dict)
    firsts: dict[str, tuple[str, int]] = field(default_factory=dict)  # first word of the group by member
    groups: dict[str, dict[str, str]] = field(default_factory=dict)  # members as written, by normalized first word
    problems: list[DictionaryError] = field(default_factory=list)

    def add(self, row: int, line: str) -> None:
        if len(self.problems) >= MAX_REPORTED_LINES:
            return
        try:
            if len(line) > MAX_LINE_CHARACTERS:
                raise DictionaryError.of("long_line", row=row, size=len(line), limit=MAX_LINE_CHARACTERS)
            _require_valid(line, row)
            content = _COMMENT.sub("", line)
            if not content.strip():
                return
            if "\t" in content:
                self._tagged(content, row)
            elif "," in content or "=>" in content:
                self._synonyms(content, row)
            else:
                self._word(content, row)
        except DictionaryError as problem:
            self.problems.append(problem)

    def dictionary(self) -> Dictionary:
        if self.problems:
            first, *first.others = self.problems
            raise first
        words = tuple(word for word, _ in self.words.values())
        synonyms = tuple(tuple(members.values()) for members in self.groups.values() if len(members) > 1)
        if not words and not synonyms:
            raise DictionaryError.of("no_words")
        return Dictionary(words, synonyms)

    def _word(self, content: str, row: int) -> None:
        form, *parts = content.split()
        if parts and "".join(parts) != form:
            details = {"word": display_text(form, 80), "parts": display_text(" ".join(parts), 80)}
            raise DictionaryError.of("wrong_parts", row=row, **details)
        self._add_word(Word(_parse_form(form, row), parts=_several(parts)), row)

    def _tagged(self, content: str, row: int) -> None:
        form, tag, *scores = (column.strip() for column in content.split("\t"))
        if len(scores) > 1:
            raise DictionaryError.of("fields", row=row, found=2 + len(scores))
        if tag not in TAGS:
            raise DictionaryError.of("unknown_tag", row=row, tag=display_text(tag, 40))
        form = _parse_form(form, row)
        try:
            score = float(*scores)  # 0 if missing
        except ValueError:
            score = float("nan")
        if not abs(score) <= MAX_SCORE:
            details = {"score": display_text(scores[0], 40), "low": f"{-MAX_SCORE:g}", "high": f"{MAX_SCORE:g}"}
            raise DictionaryError.of("bad_score", row=row, **details)
        self._add_word(Word(form, tag, score + 0.0), row)  # no -0.0

    def _add_word(self, word: Word, row: int) -> None:
        known, first = self.words.setdefault(normalize_word(word.form), (word, row))
        two_tags = known.tag and word.tag and (known.tag, known.score) != (word.tag, word.score)
        if two_tags or (known.parts and word.parts and known.parts != word.parts):
            raise DictionaryError.of("two_readings", row=row, first=first, word=display_text(word.form, 80))
        tagged = known if known.tag else word
        merged = replace(known, tag=tagged.tag, score=tagged.score, parts=known.parts or word.parts)
        self.words[normalize_word(word.form)] = merged, first

    def _synonyms(self, content: str, row: int) -> None:
        members_text, *targets = content.split("=>")
        if len(targets) > 1 or (targets and "," in targets[0]):
            raise DictionaryError.of("many_right", row=row)
        members = [_parse_form(member, row) for member in members_text.split(",")]
        first = _parse_form(targets[0], row) if targets else members[0]
        for member in (first, *members):  # checked before any member is added
            other, known = self.firsts.get(normalize_word(member), (normalize_word(first), row))
            if other != normalize_word(first):
                raise DictionaryError.of("two_groups", row=row, first=known, word=display_text(member, 80))
        group = self.groups.setdefault(normalize_word(first), {})
        for member in (first, *members):
            self.firsts.setdefault(normalize_word(member), (normalize_word(first), row))
            group.setdefault(normalize_word(member), member)


def _require_valid(text: str, row: int) -> None:
    if invalid := _INVALID.search(text):
        raise DictionaryError.of("character", row=row, found=f"U+{ord(invalid.group()):04X}")


def _parse_form(written: str, row: int) -> str:
    form = " ".join(written.split())
    if not form:
        raise DictionaryError.of("empty_word", row=row)
    if form.startswith("#"):
        raise DictionaryError.of("character", row=row, found="#")
    if len(form) > MAX_WORD_CHARACTERS:
        raise DictionaryError.of("long_word", row=row, word=display_text(form, 80), limit=MAX_WORD_CHARACTERS)
    if not _LETTER.search(form):
        raise DictionaryError.of("no_letter", row=row, word=form)
    return form


REFERENCE = "dictionary:"  # prefix of references to stored dictionaries
_LINES = "dictionary.txt"


@dataclass(frozen=True, kw_only=True)
class StoredDictionary(StoredItem):
    """The note of a stored dictionary: its numbers of words and of groups of synonyms."""

    words: int
    synonyms: int
    prefix: ClassVar[str] = REFERENCE


_DICTIONARIES = StoredCollection(
    "dictionaries",
    StoredDictionary,
    lambda reference, known: DictionaryError.of("unknown", name=reference, known=known),
)
stored = _DICTIONARIES.stored
damaged = _DICTIONARIES.damaged
remove = _DICTIONARIES.remove


def save(dictionary: Dictionary, name: str, *, source: str = "") -> StoredDictionary:
    """Store a dictionary in the workspace, without the comments of its file."""

    def fill(folder: Path) -> None:
        (folder / _LINES).write_text(format_dictionary(dictionary), encoding="utf-8")
        seal(folder)

    counts = {"words": len(dictionary.words), "synonyms": len(dictionary.synonyms)}
    return _DICTIONARIES.save(fill, name, dictionary.fingerprint, source, **counts)


def load(key: str) -> Dictionary:
    """Load a stored dictionary. Raises `DictionaryError`: `unknown`, or `broken` if its content changed."""
    note = _DICTIONARIES.get_note(key)
    folder = _DICTIONARIES.folder(key)
    try:
        dictionary = open_dictionary(folder / _LINES) if is_intact(folder, unsealed_names=[NOTE]) else None
    except DictionaryError:
        dictionary = None
    if dictionary is None or dictionary.fingerprint != note.fingerprint:
        raise DictionaryError.of("broken", name=display_text(note.name, 80))
    return dictionary


def find(reference: str, base: Path | None = None) -> Dictionary:
    """Return a dictionary by `dictionary:KEY`, file (from `base`), name, or fingerprint (8 digits or more).

    Raises `DictionaryError`: `unknown`, which lists the stored ones, `broken`, or the errors of a file.
    """
    if reference.startswith(REFERENCE):
        if all(stored_dictionary.reference != reference for stored_dictionary in stored()):
            raise _DICTIONARIES.error(reference)
        return load(reference.removeprefix(REFERENCE))
    if path := existing_file(reference, base):
        return open_dictionary(path)
    return load(_DICTIONARIES.find_note(reference).key)
