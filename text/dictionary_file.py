"""A user dictionary read from its text: every line that is wrong is told with its row."""

import codecs
import unicodedata
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path

import regex

from data.files.cells import shown
from text.dictionary import TAGS, Dictionary, Word, name_of, written
from text.problems import DictionaryError

MOST_BYTES, MOST_LINES = 16_000_000, 100_000
LONGEST_LINE, LONGEST_WORD = 5_000, 50  # characters
HIGHEST_SCORE = 100.0  # and lowest, below 0
MOST_TOLD = 100  # lines that are wrong

# no text has them (controls, surrogates, private ones), nobody sees them, or an engine reads more into them
_UNFIT = regex.compile(r"[[\p{C}--\p{Cn}]--[\t\u200C\u200D]]|[\u2028\u2029\\]", regex.VERSION1)
_COMMENT = regex.compile(r"(?:^|(?<=\s))#.*")
_SEPARATOR = regex.compile(r"\t|(?:^|\s)#")
_ENDS = regex.compile(r"\r\n|\r|\n")
_LETTER = regex.compile(r"[\p{L}\p{N}]")


def read_dictionary(content: bytes) -> Dictionary:
    """Read a dictionary: see `text.dictionary` for its lines. Loose letters are composed (NFC).

    Raises `DictionaryError` for the first line that is wrong; the error holds the others.
    """
    if len(content) > MOST_BYTES:
        raise DictionaryError.of("too_many_bytes", size=len(content), limit=MOST_BYTES)
    lines = _ENDS.split(unicodedata.normalize("NFC", _decoded(content)))
    if len(lines) > MOST_LINES + 1:  # the last one ends, too
        raise DictionaryError.of("too_many_lines", limit=MOST_LINES)
    reading = _Reading()
    for row, line in enumerate(lines, 1):
        reading.add(row, line)
    return reading.dictionary()


def open_dictionary(path: Path) -> Dictionary:
    """Read a dictionary from a file. Raises `DictionaryError`."""
    try:
        if not path.is_file():
            raise DictionaryError.of("unreadable", name=shown(path.name, 80))
        with path.open("rb") as file:
            content = file.read(MOST_BYTES + 1)
    except (OSError, ValueError) as error:
        raise DictionaryError.of("unreadable", name=shown(path.name, 80)) from error
    return read_dictionary(content)


def with_words(dictionary: Dictionary, words: Iterable[Word]) -> Dictionary:
    """Return a dictionary with more words. Raises `DictionaryError` where one is none, or was given otherwise.

    A row is that of the line in `written` of both.
    """
    more = tuple(words)
    for word in more:
        _form(word.form, 1)
        for text in (word.form, word.tag, *word.parts):
            _require_fit(text, 1)
            if found := _SEPARATOR.search(text):
                raise DictionaryError.of("character", row=1, found=repr(found.group()))
    return with_lines(dictionary, written(Dictionary(more)))


def with_lines(dictionary: Dictionary, lines: str) -> Dictionary:
    """Return a dictionary with more lines, such as synonyms. Raises `DictionaryError` as `with_words` does."""
    return read_dictionary((written(dictionary) + lines).encode(errors="replace"))


def _decoded(content: bytes) -> str:
    content = content.removeprefix(codecs.BOM_UTF8)
    try:
        return content.decode()
    except UnicodeDecodeError as error:
        row = len(_ENDS.findall(content[: error.start].decode())) + 1
        raise DictionaryError.of("not_utf8", row=row, byte=f"0x{content[error.start]:02X}") from error


@dataclass
class _Reading:
    """The lines read so far: each word, and what each synonym is read as, with the row that says so."""

    words: dict[str, tuple[Word, int]] = field(default_factory=dict)
    firsts: dict[str, tuple[str, int]] = field(default_factory=dict)  # by name, what it is read as
    groups: dict[str, dict[str, str]] = field(default_factory=dict)  # by name of the first, the members as written
    problems: list[DictionaryError] = field(default_factory=list)

    def add(self, row: int, line: str) -> None:
        """Read a line, or note what is wrong with it."""
        if len(self.problems) >= MOST_TOLD:
            return
        try:
            if len(line) > LONGEST_LINE:
                raise DictionaryError.of("long_line", row=row, size=len(line), limit=LONGEST_LINE)
            _require_fit(line, row)
            content = _COMMENT.sub("", line)
            if content.strip():
                self._reader_of(content)(content, row)
        except DictionaryError as problem:
            self.problems.append(problem)

    def dictionary(self) -> Dictionary:
        """Return what was read. Raises `DictionaryError`."""
        if self.problems:
            first, *first.others = self.problems
            raise first
        words = tuple(word for word, _ in self.words.values())
        synonyms = tuple(tuple(members.values()) for members in self.groups.values() if len(members) > 1)
        if not words and not synonyms:
            raise DictionaryError.of("no_words")
        return Dictionary(words, synonyms)

    def _reader_of(self, content: str) -> Callable[[str, int], None]:
        if "\t" in content:
            return self._tagged
        return self._synonyms if "," in content or "=>" in content else self._word

    def _word(self, content: str, row: int) -> None:
        form, *parts = content.split()
        if parts and "".join(parts) != form:
            told = {"word": shown(form, 80), "parts": shown(" ".join(parts), 80)}
            raise DictionaryError.of("wrong_parts", row=row, **told)
        self._keep(Word(_form(form, row), parts=tuple(parts) if len(parts) > 1 else ()), row)

    def _tagged(self, content: str, row: int) -> None:
        form, tag, *scores = (column.strip() for column in content.split("\t"))
        if len(scores) > 1:
            raise DictionaryError.of("fields", row=row, found=2 + len(scores))
        if tag not in TAGS:
            raise DictionaryError.of("unknown_tag", row=row, tag=shown(tag, 40))
        self._keep(Word(_form(form, row), tag, _score(scores[0], row) if scores else 0.0), row)

    def _keep(self, word: Word, row: int) -> None:
        known, first = self.words.setdefault(name_of(word.form), (word, row))
        two_tags = known.tag and word.tag and (known.tag, known.score) != (word.tag, word.score)
        if two_tags or (known.parts and word.parts and known.parts != word.parts):
            raise DictionaryError.of("two_readings", row=row, first=first, word=shown(word.form, 80))
        tagged = known if known.tag else word
        merged = replace(known, tag=tagged.tag, score=tagged.score, parts=known.parts or word.parts)
        self.words[name_of(word.form)] = merged, first

    def _synonyms(self, content: str, row: int) -> None:
        left, *right = content.split("=>")
        if len(right) > 1 or (right and "," in right[0]):
            raise DictionaryError.of("many_right", row=row)
        members = [_form(member, row) for member in left.split(",")]
        first = _form(right[0], row) if right else members[0]
        for member in (first, *members):  # all of a line, or nothing
            self._require_one_group(member, name_of(first), row)
        group = self.groups.setdefault(name_of(first), {})
        for member in (first, *members):
            self.firsts.setdefault(name_of(member), (name_of(first), row))
            group.setdefault(name_of(member), member)

    def _require_one_group(self, member: str, first: str, row: int) -> None:
        other, known = self.firsts.get(name_of(member), (first, row))
        if other != first:
            raise DictionaryError.of("two_groups", row=row, first=known, word=shown(member, 80))


def _require_fit(text: str, row: int) -> None:
    if unfit := _UNFIT.search(text):
        raise DictionaryError.of("character", row=row, found=f"U+{ord(unfit.group()):04X}")


def _form(written: str, row: int) -> str:
    form = " ".join(written.split())
    if not form:
        raise DictionaryError.of("empty_word", row=row)
    if form.startswith("#"):
        raise DictionaryError.of("character", row=row, found="#")
    if len(form) > LONGEST_WORD:
        raise DictionaryError.of("long_word", row=row, word=shown(form, 80), limit=LONGEST_WORD)
    if not _LETTER.search(form):
        raise DictionaryError.of("no_letter", row=row, word=form)
    return form


def _score(written: str, row: int) -> float:
    try:
        score = float(written)
    except ValueError:
        score = float("nan")
    if not abs(score) <= HIGHEST_SCORE:
        told = {"score": shown(written, 40), "low": f"{-HIGHEST_SCORE:g}", "high": f"{HIGHEST_SCORE:g}"}
        raise DictionaryError.of("bad_score", row=row, **told)
    return score + 0.0  # no -0.0
