"""Checks texts for problems that change scores: markup, unusual characters, damage, near-duplicates, repetition.

A note has a count, three examples and advice, and appears only above a threshold. Near-duplicates are detected by
MinHash over character shingles: one permutation hashing (Li, Owen and Zhang 2012) with densification by rotation
(Shrivastava and Li 2014), then the Jaccard similarity of texts that share a band of their signatures.
"""

import re
import unicodedata
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice, pairwise
from typing import Literal

import numpy as np
import regex

from mrc_workbench.data.formats.tables import display_text
from mrc_workbench.data.problems import Problem, ProblemCode
from mrc_workbench.data.questions import OverlapUnit, overlap_unit, relevant_rows
from mrc_workbench.data.records import Question, QuestionSet
from mrc_workbench.data.split import Part, Split
from mrc_workbench.data.split.partition import linked_groups
from mrc_workbench.data.texts import Texts

MAX_CHECKED_PASSAGES = 100_000  # relevant passages first: some seconds, some hundred MB
_MAX_SAMPLED_QUESTIONS = 1_000  # for `_lost_fraction`
_EXAMPLES = 3
_EXAMPLE_LENGTH = 40
# A metric moves by at most the fraction of affected questions. 1% is the standard error of a recall of 0.5 over 2,500
# questions, more than most test sets have: smaller effects are not visible.
_MIN_FRACTION = 0.01
_MIN_DAMAGED_FRACTION = 0.001  # of passages: a wrong conversion damages more, single errors occur in any text
_MIN_LOST_FRACTION = 0.001  # of matching words: full-width forms on both sides match

_TAGS = (
    "p|br|div|span|table|tr|td|th|ul|ol|li|a|b|i|u|em|strong|h[1-6]|img|sup|sub|ref|font|center|section|article|"
    "script|style|blockquote|pre|code|hr|iframe"
)
_ENTITIES = "nbsp|amp|lt|gt|quot|apos|middot|ldquo|rdquo|lsquo|rsquo|hellip|ndash|mdash|#[0-9]{1,6}|#x[0-9A-Fa-f]{1,6}"
_MARKUP = {  # read by Python and by RE2
    "html": rf"</?(?i:{_TAGS})(?:\s[^<>]*)?/?>",
    "entities": rf"&(?:{_ENTITIES});",
    "tables": r"(?m)^[ \t]*\|?[ \t]*:?-{3,}:?[ \t]*\|[ \t:|-]*$",
    "wiki": r"(?m)\[\[[^\[\]\n]+\]\]|\{\{[^{}\n]+\}\}|'''[^'\n]+'''|^={2,}[^=\n]+={2,}[ \t]*$",
}
_COMBINING_MARKS = "[\u0300-\u036f\u1100-\u11ff\u3099\u309a]"  # combining marks and conjoining jamo
# full-width letters, half-width kana
_WIDTH_VARIANTS = "[\uff10-\uff19\uff21-\uff3a\uff41-\uff5a\uff66-\uff9f\uffa1-\uffdc]"
_UTF8_CONTINUATION = f"[\u0080-\u009f{bytes(range(0x80, 0xC0)).decode('cp1252', 'ignore')}]"
_MOJIBAKE = (
    "\ufffd"  # the replacement character
    # UTF-8 read as Latin-1 or Windows-1252
    f"|[\u00c2\u00c3][\u00a0-\u00bf]|(?:[\u00c4-\u00df]{_UTF8_CONTINUATION}){{2}}"
    f"|(?:[\u00e0-\u00ef]{_UTF8_CONTINUATION}{{2}}){{2}}|\u00e2\u20ac[\u2122\u0153\u009d\u201c\u201d]"
    # CP949, GB18030 or Shift-JIS read as Latin-1: no language has six such characters in a row, a letter among them
    "|[\u00a1-\u00fe]{2}[\u00c0-\u00d6\u00d8-\u00f6\u00f8-\u00fe][\u00a1-\u00fe]{3}"
)
_WORD = regex.compile(r"[\w\p{M}]+")
_GRAPHEME = regex.compile(r"\X")  # a letter with its marks, or the jamo of a syllable
_Form = Literal["NFC", "NFKC"]
SIMILARITY = 0.8  # minimal Jaccard similarity of near-duplicates: about one word in ten differs
# a signature has 16 bands of 4 bins, which detect 99.9% of the pairs with a similarity of 0.8
_BINS = 64
_BAND = 4
_MIN_ESTIMATED_SIMILARITY = SIMILARITY - 0.15  # three standard errors of an estimate from 64 bins
_MAX_EXACT_COMPARISONS = 5_000  # candidate pairs compared by shingles; further pairs by their estimate
_MAX_TEXT_LENGTH = 20_000  # characters that are compared
_BLOCK = 200  # texts hashed at a time: the arrays fit into a processor's cache
_CHUNK = 200_000  # pairs estimated at a time
_DIGITS = re.compile(r"\d+")
_SPACE = re.compile(r"[\x00- ]+")
_EMPTY = np.uint64(2**64 - 1)


def content_notes(question_set: QuestionSet, split: Split) -> tuple[Problem, ...]:
    """Return the notes about the texts of a set and of its parts."""
    rows = _checked_rows(question_set)
    texts = question_set.passages.texts
    ids = question_set.passages.ids
    if len(rows) < len(texts):
        texts, ids = (Texts(column.column.take(rows)) for column in (texts, ids))
    return (
        *_check_markup(texts, ids),
        *_check_damage(texts, ids),
        *_check_unicode_forms(question_set, texts, ids, "NFC"),
        *_check_unicode_forms(question_set, texts, ids, "NFKC"),
        *_check_duplicates(question_set, split, texts, rows),
        *_check_repeated_questions(question_set, split),
    )


def _checked_rows(question_set: QuestionSet) -> np.ndarray:
    """Return the rows of the passages to check, ascending: all, or relevant passages and others at equal distances."""
    count = len(question_set.passages)
    if count <= MAX_CHECKED_PASSAGES:
        return np.arange(count)
    relevant = np.unique(question_set.relevance.indices)[:MAX_CHECKED_PASSAGES]
    others = np.setdiff1d(np.arange(count), relevant, assume_unique=True)
    positions = np.linspace(0, len(others) - 1, MAX_CHECKED_PASSAGES - len(relevant)).astype(np.int64)
    return np.sort(np.concatenate([relevant, others[positions]]))


def _check_markup(texts: Texts, ids: Texts) -> Iterator[Problem]:
    matches_by_kind = {kind: texts.matching(pattern) for kind, pattern in _MARKUP.items()}
    has_markup = np.any([*matches_by_kind.values()], axis=0)
    count = int(np.count_nonzero(has_markup))
    if count >= max(1, _MIN_FRACTION * len(texts)):
        counts = {kind: int(np.count_nonzero(matches)) for kind, matches in matches_by_kind.items()}
        patterns = re.compile("|".join(f"(?:{pattern.removeprefix('(?m)')})" for pattern in _MARKUP.values()), re.M)
        examples = _snippets(texts, ids, np.flatnonzero(has_markup), patterns)
        fraction = _format_percent(count / len(texts))
        details: dict[str, str | int] = {"count": count, "checked": len(texts), "share": fraction, "examples": examples}
        yield Problem.from_code(ProblemCode.MARKUP, None, **counts, **details)


def _check_damage(texts: Texts, ids: Texts) -> Iterator[Problem]:
    rows = np.flatnonzero(texts.matching(_MOJIBAKE))
    if len(rows) >= max(1, _MIN_DAMAGED_FRACTION * len(texts)):
        examples = _snippets(texts, ids, rows, re.compile(_MOJIBAKE))
        yield Problem.from_code(ProblemCode.DAMAGED_TEXT, count=len(rows), checked=len(texts), examples=examples)


def _check_unicode_forms(question_set: QuestionSet, texts: Texts, ids: Texts, form: _Form) -> Iterator[Problem]:
    """Report decomposed letters, which BM25 composes, or full-width and half-width forms, which it does not."""
    code = ProblemCode.DECOMPOSED_CHARACTERS if form == "NFC" else ProblemCode.FULL_WIDTH
    pattern = _COMBINING_MARKS if form == "NFC" else _WIDTH_VARIANTS

    def has_form(text: str) -> bool:
        if form == "NFC":
            return not unicodedata.is_normalized("NFC", text)
        return re.search(_WIDTH_VARIANTS, text) is not None

    rows = [row for row in np.flatnonzero(texts.matching(pattern)).tolist() if has_form(texts[row])]
    questions = [question for question in question_set.questions if has_form(question.text)]
    counts = ((len(rows), len(texts)), (len(questions), len(question_set.questions)))
    if not any(_exceeds_threshold(count, total) for count, total in counts):
        return
    lost_fraction = _lost_fraction(question_set, form)
    if form == "NFKC" and lost_fraction < _MIN_LOST_FRACTION:
        return
    examples_with_ids = [(ids[row], texts[row]) for row in rows[:_EXAMPLES]]
    examples_with_ids += [(question.id, question.text) for question in questions[:_EXAMPLES]]
    words = ((id_, next((word for word in text.split() if has_form(word)), "")) for id_, text in examples_with_ids)
    examples = _format_examples(f"{id_}: {display_text(word, _EXAMPLE_LENGTH)}" for id_, word in words)
    lost = _format_percent(lost_fraction)
    details: dict[str, str | int] = {"passages": len(rows), "questions": len(questions), "lost": lost}
    yield Problem.from_code(code, None, **details, examples=examples)


def _lost_fraction(question_set: QuestionSet, form: _Form) -> float:
    """Return the fraction of common wording that only matches in a normal form, or NaN. NFKC is compared with NFC."""
    in_pairs = overlap_unit(question_set) is OverlapUnit.PAIRS
    question_rows = np.random.default_rng(0).permutation(question_set.answerable)[:_MAX_SAMPLED_QUESTIONS]
    texts = question_set.passages.texts
    relevance = question_set.relevance
    shared = 0
    lost = 0
    for row in question_rows.tolist():
        pair = [question_set.questions[row].text, texts[int(relevance.indices[relevance.indptr[row]])]]
        if form == "NFKC":
            pair = [unicodedata.normalize("NFC", text) for text in pair]
        question, passage = (_spellings(text, form, in_pairs=in_pairs) for text in pair)
        for unit, spellings in question.items():
            if unit in passage:
                shared += 1
                lost += spellings.isdisjoint(passage[unit])
    return lost / shared if shared else float("nan")


def _spellings(text: str, form: _Form, *, in_pairs: bool) -> dict[str, set[str]]:
    spellings: defaultdict[str, set[str]] = defaultdict(set)
    for word in _WORD.findall(text.lower()):
        characters = _GRAPHEME.findall(word) if in_pairs else []
        for unit in map("".join, pairwise(characters)) if in_pairs else [word]:
            spellings[unicodedata.normalize(form, unit)].add(unit)
    return spellings


def _check_duplicates(question_set: QuestionSet, split: Split, texts: Texts, rows: np.ndarray) -> Iterator[Problem]:
    duplicates = find_near_duplicates(texts)
    ids = question_set.passages.ids
    if _exceeds_threshold(duplicates.duplicate_count, len(texts)):
        pairs = (f"{ids[int(rows[b])]} ≈ {ids[int(rows[a])]}" for a, b in duplicates.pairs.tolist())
        yield _count_note(ProblemCode.NEAR_DUPLICATES, duplicates.duplicate_count, pairs, checked=len(texts))
    cluster = np.full(len(question_set.passages), -1, dtype=np.int64)
    cluster[rows] = duplicates.clusters
    relevance = question_set.relevance
    trained = np.unique(relevance[split.rows[Part.TRAIN]].indices)
    trained_passages = set(trained.tolist())
    trained_clusters = {*cluster[trained].tolist()} - {-1}
    leaks: list[str] = []
    tested = split.rows[Part.TEST]
    for row in tested.tolist():
        relevant = relevant_rows(question_set, row)
        copies = [p for p in relevant if p not in trained_passages and int(cluster[p]) in trained_clusters]
        if copies:
            leaks.append(f"{question_set.questions[row].id} ({ids[copies[0]]})")
    if _exceeds_threshold(len(leaks), len(tested)):
        yield _count_note(ProblemCode.NEAR_DUPLICATE_PARTS, len(leaks), leaks, tested=len(tested))


def _check_repeated_questions(question_set: QuestionSet, split: Split) -> Iterator[Problem]:
    """Report test questions that repeat a training question with nearly the same words and the same numbers."""
    trained = split.rows[Part.TRAIN]
    tested = split.rows[Part.TEST]
    questions = [question_set.questions[row] for row in (*trained.tolist(), *tested.tolist())]
    word_characters = _WordCharacters()
    texts = [question.text.translate(word_characters) for question in questions]  # without punctuation
    clusters = find_near_duplicates(texts, shingle_length=3, min_number_similarity=1).clusters.tolist()
    first_trained: dict[int, Question] = {}
    leaks: list[str] = []
    for index, (cluster, question) in enumerate(zip(clusters, questions, strict=True)):
        if index < len(trained):
            first_trained.setdefault(cluster, question)
        elif cluster in first_trained:
            leaks.append(f"{question.id}: {question.text} ({first_trained[cluster].id})")
    if _exceeds_threshold(len(leaks), len(tested)):
        yield _count_note(ProblemCode.REPEATED_QUESTIONS, len(leaks), leaks, tested=len(tested))


class _WordCharacters(dict[int, int | None]):
    """A table for `str.translate` that removes all characters outside of words."""

    def __missing__(self, code: int) -> int | None:
        self[code] = code if _WORD.match(chr(code)) else None
        return self[code]


def _count_note(code: ProblemCode, count: int, examples: Iterable[str], **total: int) -> Problem:
    """Return a note with a count and its fraction of the number in `total`, given by name."""
    (number,) = total.values()
    fraction = _format_percent(count / number)
    return Problem.from_code(code, count=count, **total, share=fraction, examples=_format_examples(examples))


def _exceeds_threshold(count: int, total: int) -> bool:
    return count >= max(1, _MIN_FRACTION * total)


def _format_percent(fraction: float) -> str:
    return "–" if np.isnan(fraction) else f"{fraction:.1%}"


def _format_examples(examples: Iterable[str]) -> str:
    return ", ".join(display_text(example, 2 * _EXAMPLE_LENGTH) for example in islice(examples, _EXAMPLES))


def _snippets(texts: Texts, ids: Texts, rows: np.ndarray, pattern: re.Pattern[str]) -> str:
    snippets = []
    for row in rows[:_EXAMPLES].tolist():
        if match := pattern.search(texts[row]):
            start = match.start()
            snippet = texts[row][start : max(match.end(), start + _EXAMPLE_LENGTH)]
            snippets.append(f"{ids[row]}: {display_text(' '.join(snippet.split()), _EXAMPLE_LENGTH)}")
    return ", ".join(snippets)


@dataclass(frozen=True)
class NearDuplicates:
    """Near-duplicates among `n` texts: pairs of rows in ascending order, and the cluster of each text."""

    pairs: np.ndarray = field(repr=False)  # (n_pairs, 2) int64, ascending
    clusters: np.ndarray = field(repr=False)  # (n,) int32

    @property
    def duplicate_count(self) -> int:
        return len(self.clusters) - int(self.clusters.max(initial=-1) + 1)


def find_near_duplicates(
    texts: Sequence[str], *, shingle_length: int = 5, min_number_similarity: float = 0.5
) -> NearDuplicates:
    """Find the texts with a Jaccard similarity of at least `SIMILARITY` over shingles of `shingle_length` characters.

    White space, case and the composition of letters are ignored. The Jaccard similarity of the numbers in two texts
    must be at least `min_number_similarity`. Memory: 128 bytes per text, and 16 per candidate pair.
    """
    signatures, has_shingles = _minhash_signatures(texts, shingle_length)
    pairs = _candidate_pairs(signatures, np.flatnonzero(has_shingles))
    chunks = (pairs[start : start + _CHUNK] for start in range(0, len(pairs), _CHUNK))
    chunk_estimates = [(signatures[chunk[:, 0]] == signatures[chunk[:, 1]]).mean(axis=1) for chunk in chunks]
    estimates = np.concatenate([np.zeros(0), *chunk_estimates])  # of the similarities: fractions of equal bins
    pairs = pairs[estimates >= _MIN_ESTIMATED_SIMILARITY]
    estimates = estimates[estimates >= _MIN_ESTIMATED_SIMILARITY]
    is_similar = estimates >= SIMILARITY
    compared_count = min(len(pairs), _MAX_EXACT_COMPARISONS)
    is_similar[:compared_count] = [
        _jaccard(_shingles(texts[a], shingle_length), _shingles(texts[b], shingle_length)) >= SIMILARITY
        for a, b in pairs[:compared_count].tolist()
    ]
    pairs = pairs[is_similar]
    numbers_in = {row: set(_DIGITS.findall(texts[row])) for row in np.unique(pairs).tolist()}
    has_numbers = [_jaccard(numbers_in[a], numbers_in[b]) >= min_number_similarity for a, b in pairs.tolist()]
    pairs = pairs[np.array(has_numbers, dtype=bool)]
    return NearDuplicates(pairs, linked_groups(pairs[:, 0], pairs[:, 1], len(texts)))


def _normalize(text: str) -> str:
    return unicodedata.normalize("NFKC", text[:_MAX_TEXT_LENGTH]).lower()


def _shingles(text: str, length: int) -> set[str]:
    text = _SPACE.sub("", _normalize(text))
    return {text[start : start + length] for start in range(len(text) - length + 1)}


def _jaccard(first: set[str], second: set[str]) -> float:
    return len(first & second) / len(first | second) if first or second else 1.0


def _minhash_signatures(texts: Sequence[str], shingle_length: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the signature of each text, `(n, _BINS)` uint16, and whether it has a shingle, `(n,)` bool."""
    signatures = np.zeros((len(texts), _BINS), dtype=np.uint16)
    has_shingles = np.zeros(len(texts), dtype=bool)
    normalized = map(_normalize, texts)
    start = 0
    while block := [*islice(normalized, _BLOCK)]:
        codes, lengths = _visible_characters(block)
        hashes, rows = _shingle_hashes(codes, lengths, shingle_length)
        min_hashes = np.full(len(block) * _BINS, _EMPTY, dtype=np.uint64)
        bins = (hashes >> np.uint64(58)).astype(np.int64)
        np.minimum.at(min_hashes, rows * _BINS + bins, hashes << np.uint64(6))
        end = start + len(block)
        has_shingles[start:end] = lengths >= shingle_length
        known = np.flatnonzero(has_shingles[start:end])
        signatures[start + known] = _densify(min_hashes.reshape(len(block), _BINS)[known])
        start = end
    return signatures, has_shingles


def _visible_characters(texts: list[str]) -> tuple[np.ndarray, np.ndarray]:
    codes = np.frombuffer("".join(texts).encode("utf-32-le", "surrogatepass"), dtype=np.uint32)
    ends = np.cumsum([len(text) for text in texts])
    is_visible = codes > ord(" ")
    visible_counts = np.concatenate([[0], np.cumsum(is_visible)])
    return codes[is_visible].astype(np.uint64), np.diff(visible_counts[ends], prepend=0)


def _shingle_hashes(codes: np.ndarray, lengths: np.ndarray, shingle_length: int) -> tuple[np.ndarray, np.ndarray]:
    count = max(0, len(codes) - shingle_length + 1)
    hashes = np.zeros(count, dtype=np.uint64)
    for offset in range(shingle_length):  # polynomial, modulo 2**64
        hashes *= np.uint64(0x9E3779B97F4A7C15)
        hashes += codes[offset : offset + count]
    hashes ^= hashes >> np.uint64(30)  # the finalizer of SplitMix64
    hashes *= np.uint64(0xBF58476D1CE4E5B9)
    hashes ^= hashes >> np.uint64(27)
    hashes *= np.uint64(0x94D049BB133111EB)
    hashes ^= hashes >> np.uint64(31)
    rows = np.repeat(np.arange(len(lengths)), lengths)[:count]
    is_whole = np.arange(count) + shingle_length <= np.cumsum(lengths)[rows]
    return hashes[is_whole], rows[is_whole]


def _densify(min_hashes: np.ndarray) -> np.ndarray:
    """Return 16 bits of the smallest hash of each bin; an empty bin borrows from the next bin that is not empty."""
    positions = np.arange(2 * _BINS)
    is_known = min_hashes != _EMPTY
    following = np.where(np.hstack([is_known, is_known]), positions, 2 * _BINS)
    following = np.minimum.accumulate(following[:, ::-1], axis=1)[:, ::-1][:, :_BINS]
    filled = np.take_along_axis(min_hashes, following % _BINS, axis=1)
    filled += (following - positions[:_BINS]).astype(np.uint64)  # a borrowed value differs from the original
    filled *= np.uint64(0xD6E8FEB86659FD93)
    return (filled >> np.uint64(48)).astype(np.uint16)


def _candidate_pairs(signatures: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """Return the pairs of rows that share a band: each row with the first and the previous row, `(n_pairs, 2)`."""
    n = len(signatures)
    bands = signatures[rows].view(np.uint64).reshape(len(rows), _BINS // _BAND)
    pair_keys = [np.zeros(0, dtype=np.int64)]
    for band in bands.T:
        order = np.argsort(band, kind="stable")
        repeats = np.flatnonzero(band[order][1:] == band[order][:-1]) + 1
        if not len(repeats):
            continue
        is_first = np.ones(len(order), dtype=bool)
        is_first[repeats] = False
        first = np.maximum.accumulate(np.where(is_first, np.arange(len(order)), 0))[repeats]
        pair_keys += [rows[order[partner]] * n + rows[order[repeats]] for partner in (first, repeats - 1)]
    keys = np.unique(np.concatenate(pair_keys))
    return np.stack([keys // max(1, n), keys % max(1, n)], axis=1)
