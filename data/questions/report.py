"""The report of a question set: as lines for a terminal, as JSON, and with all its records."""

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from mrc_workbench.data.apart import UnusableFileError
from mrc_workbench.data.formats.rows import (
    column_lines,
    column_words,
    columns_as_json,
    count_words,
    problem_lines,
    reading_as_json,
    spread,
    value_as_json,
)
from mrc_workbench.data.formats.tables import shown
from mrc_workbench.data.problems import DataError, Problem
from mrc_workbench.data.questions.audit import Audit, Unit
from mrc_workbench.data.questions.read import Reading
from mrc_workbench.data.records import Question, QuestionSet
from mrc_workbench.data.split import PARTS, Part, Split, SplitMethod, few_questions

_NO_QUESTION = "No questions: these passages can be searched, and `mrc data generate` generates some to train with"
_SHOWN_PROBLEMS = 10
_LISTED_FILES = 20
_SAMPLE_ROWS, _SAMPLE_CHARACTERS = 2, 60  # of each candidate reading


def reading_lines(reading: Reading) -> list[str]:
    """Return what the files hold, which columns are used, what the files lack of each other, and the problems."""
    questions, passages = reading.question_set.questions, f"{len(reading.question_set.passages):,} passages"
    encoding = f", {reading.encoding}" if reading.encoding else ""
    if reading.layout is None:
        lines = [
            f"{reading.question_set.name}: {reading.format}{encoding}",
            f"{reading.paragraph_count:,} paragraphs -> {passages}; "
            f"{reading.row_count:,} rows -> {len(questions):,} questions",
        ]
        if reading.columns and (named := column_words(reading.columns)):
            lines.append(f"Columns: {named}")
    else:
        graded = sum(bool(question.grades) for question in questions)
        grouped = sum(bool(question.groups) for question in questions)
        counts = [passages, f"{len(questions):,} questions", f"{reading.judgement_count:,} judgements"]
        counts += [f"{graded:,} questions with grades"] * bool(graded) + [f"{grouped:,} with groups"] * bool(grouped)
        lines = [f"{reading.question_set.name}: laid out as {reading.layout}", ", ".join(counts)]
    lines += _file_lines(reading) + column_lines(reading, reading.columns)
    lines += [] if questions else [_NO_QUESTION]
    return [*lines, *(f"  {gap.message}" for gap in reading.gaps), *problem_lines(reading)]


def _file_lines(reading: Reading) -> list[str]:
    """A line for each file; of many files one for all of the same role, format and encoding."""
    counts: defaultdict[tuple[str, str], list[int]] = defaultdict(list)
    for file in reading.files:
        form = ", ".join(filter(None, (file.role, file.format, file.encoding)))
        counts[file.name if len(reading.files) <= _LISTED_FILES else "", form].append(file.row_count)
    named = ((name or f"{len(rows):,} files", form, sum(rows)) for (name, form), rows in counts.items())
    return [f"  {name}: {form}; {rows:,} rows" for name, form, rows in named]


def audit_lines(figures: Audit) -> list[str]:
    """Return counts, lengths, shared wording and doubtful questions."""
    overlap = "not measurable"
    if not math.isnan(figures.overlap.mean):
        counted = {Unit.WORDS: "words", Unit.PAIRS: "letter pairs"}[figures.overlap.unit]
        by_chance = "-" if math.isnan(figures.overlap.by_chance) else f"{figures.overlap.by_chance:.1%}"
        overlap = f"{figures.overlap.mean:.1%} of the {counted}; by chance {by_chance}"
    return [
        f"Articles: {figures.article_count:,}; passages without a question: "
        f"{figures.passages_without_question:,}; unanswerable questions: {figures.unanswerable_count:,}",
        f"Characters a passage: {spread(figures.passage_lengths)}; a question: {spread(figures.question_lengths)}",
        f"Wording that question and passage share: {overlap}",
        f"Questions asked more than once: {len(figures.duplicate_questions):,}; "
        f"answers not found in their passage: {len(figures.answers_not_found):,}",
        *([f"The answers are labels, not parts of passages: {', '.join(figures.labels)}"] if figures.labels else []),
        *([f"Kinds: {count_words(figures.kinds)}"] if figures.kinds else []),
        *([f"Made of passages, asked by nobody: {count_words(figures.made)}"] if figures.made else []),
    ]


def split_lines(parts: Split) -> list[str]:
    """Return how the answerable questions are split, published or drawn, and which parts have too few of them."""
    of = "groups" if parts.method is SplitMethod.GROUPED else "relevant passages"
    counts = (f"{part} {len(parts.rows[part]):,} ({parts.group_counts[part]:,} {of})" for part in PARTS)
    return [f"Split of the answerable questions, {parts.description}: {', '.join(counts)}", *_split_warnings(parts)]


def _split_warnings(parts: Split) -> list[str]:
    if not len(parts.rows[Part.ALL]):
        return []
    warnings = (few_questions(len(parts.rows[part]), f"{part} questions") for part in PARTS)
    return [warning for warning in warnings if warning]


def refusal_lines(error: DataError) -> list[str]:
    """Return why data is refused, its first unusable rows, and the flags to choose a reading or an encoding."""
    rows = [problem.message for problem in error.others if problem.leaves_out_row][:_SHOWN_PROBLEMS]
    lines = [str(error), *(f"  {row}" for row in rows), *(problem.message for problem in error.file_problems)]
    if not isinstance(error, UnusableFileError):
        return lines
    proposal = error.proposal
    if proposal.candidates:
        lines.append("Possible readings:")
    for columns in proposal.candidates:
        roles = {role: name for role, name in asdict(columns).items() if name is not None}
        lines.append(f"  --columns {' '.join(_quoted(f'{role}={name}') for role, name in roles.items())}")
        for row in proposal.first_rows[:_SAMPLE_ROWS]:
            cells = (f"{role}: {shown(row.get(name, ''), _SAMPLE_CHARACTERS)}" for role, name in roles.items())
            lines.append(f"    {' | '.join(cells)}")
    if proposal.encodings:
        lines.append("Possible encodings:")
    lines += [f"  --encoding {encoding.name}    {encoding.sample}" for encoding in proposal.encodings]
    return lines


def _quoted(word: str) -> str:
    """Return an argument as a shell takes it."""
    return f'"{word}"' if any(character.isspace() or character in "'()[]{}<>&|;*?$`!#~" for character in word) else word


def as_json(reading: Reading, figures: Audit, parts: Split, notes: Sequence[Problem]) -> dict[str, Any]:
    """Return what was understood of the files, the audit, the split, and notes about the texts."""
    return {
        "name": reading.question_set.name,
        "fingerprint": reading.question_set.fingerprint,
        "paragraph_count": reading.paragraph_count,
        **reading_as_json(reading, reading.columns),
        "layout": reading.layout,
        "judgement_count": reading.judgement_count,
        "files": [
            {"name": one.name, "role": one.role, "format": one.format, "rows": one.row_count, "left_out": one.left_out}
            for one in reading.files
        ],
        "gaps": [{"code": gap.code, "message": gap.message, **gap.details} for gap in reading.gaps],
        "notices": [{"code": note.code, "message": note.message, **note.details} for note in notes],
        "audit": value_as_json(figures),
        "split": {
            "seed": parts.options.seed,
            **parts.summary(),
            "groups": parts.group_counts,
            "warnings": _split_warnings(parts),
        },
    }


def dataset_as_json(reading: Reading, figures: Audit, parts: Split, file_names: Sequence[str]) -> dict[str, Any]:
    """Return the counts of a dataset and what became of its files and columns.

    `file_names` are the names of the given files, for a reading that does not list its files.
    """
    return {
        "articles": figures.article_count,
        "split": {part: len(parts.rows[part]) for part in PARTS},
        "published_split": parts.is_published,
        "files": [file.name for file in reading.files] or list(file_names),
        **columns_as_json(reading),
    }


def records_as_json(question_set: QuestionSet) -> dict[str, Any]:
    """Return all passages, and all questions with the grade of every judged passage."""
    return {
        "passages": [
            {"id": passage.id, "title": passage.title, "text": passage.text} for passage in question_set.passages
        ],
        "questions": [
            {
                "id": question.id,
                "text": question.text,
                "grades": _grades(question),
                "answers": question.answers,
                "starts": question.starts,
            }
            for question in question_set.questions
        ],
    }


def _grades(question: Question) -> dict[str, int]:
    return {**question.grade_of, **dict.fromkeys(question.rejected, 0)}
