"""Assigns roles to the columns of a table: by their values (types, uniqueness, references), then by their names."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from shlex import quote
from typing import Any

from mrc_workbench.data.formats.columns import (
    NAMES,
    FindColumn,
    QuestionColumns,
    example_names,
    known_name,
    name_with_known_word,
    plain_name,
    roles_by_name,
)
from mrc_workbench.data.formats.tables import as_text, display_text, is_collection, is_missing
from mrc_workbench.data.layouts import WORDS
from mrc_workbench.data.layouts.cells import Sample, is_unclear_list, list_items, parse_mark, passages_in
from mrc_workbench.data.layouts.lines import WHOLE_NUMBER
from mrc_workbench.data.layouts.references import parse_part
from mrc_workbench.data.problems import DataError, ProblemCode

_FILE_NAME = re.compile(r"[^\n]{1,200}\.(md|txt|pdf|html?|docx?|hwpx?|pptx?|xlsx?|csv|jsonl?|rst|xml)", re.IGNORECASE)
_ADDRESS = re.compile(r"(https?://|www\.|file:|s3:|/|[A-Za-z]:\\)\S+|[\w.+-]+@[\w-]+\.[\w.]+", re.IGNORECASE)
_DATE = re.compile(r"\d{4}[-./년]\s?\d{1,2}[-./월]\s?\d{1,2}.{0,30}|\d{1,2}[-./]\d{1,2}[-./]\d{4}.{0,30}")
_SEVERAL_WORDS = re.compile(r"\S\s+\S|\S[.!?。！？…]$|[\u3040-\u30ff\u4e00-\u9fff\u0e00-\u0e7f]{12}")
_MEDIA = ({"bytes", "path"}, {"array", "sampling_rate"})  # images, sounds and videos as Hugging Face stores them
_MAX_ITEMS = 5  # sampled from a list
_MAX_LABEL = 10  # larger numbers are scores of a search engine or no grades

Selection = Mapping[str, str | None]  # columns that the user named, by role
_SIBLINGS = ("positives", "negatives", "candidates")
_UNAMBIGUOUS_LABELS = {*WORDS["clear_labels"]}
_AMBIGUOUS_LABELS = {"label", "라벨", "레이블"}  # may also be answers to yes-no questions
_YES_OR_NO = {"0", "1", "true", "false", "yes", "no", "y", "n"}
_NOT_PASSAGE_NAMES = {*WORDS["not_passages"]}
_NOT_PASSAGE_PATTERN = re.compile(
    r"^(retriev|predict|generat|model|llm|system|neg|hardneg|expected|gold(en)?answer|reference(answer)?s?$|검색|부정|오답)"
    r"|(url|uri|link|path|filename|embedding|vector|prediction|response|output|answer)s?$|파일명?$|경로$|링크$"
)
_RETRIEVED = re.compile(r"^retriev|^검색(된|결과)|^searchresults?$")
# names that mean a passage for any values; columns with other names may hold ids
_UNAMBIGUOUS_PASSAGES = {*WORDS["clear_passages"]}
_ID_NAME = re.compile(r"(id|uid|uuid|no|number|code|번호|아이디|식별자|코드|番号|编号|編號)$")
_REFERENCE_ANSWERS = ("groundtruth", "groundtruths", "reference", "expectedanswer", "expectedoutput", "referenceanswer")
_MAX_FLAGS = 5
_UNAMBIGUOUS_LISTS = ("positive", "positives", "pos", "긍정")  # texts for any values
_MIN_ROWS = 2  # for a conclusion from values


def _may_hold_passages(name: str, sample: Sample) -> bool:
    """Whether values can be passages: no numbers, no media, and without a clear name no files, addresses or dates."""
    is_unambiguous = plain_name(name) in _UNAMBIGUOUS_PASSAGES
    if not is_unambiguous and (holds_locations(name, sample) or _matches_pattern(name, sample, _DATE)):
        return False
    values = [row.get(name) for row in sample[:20] if not is_missing(row.get(name))]
    cells = [value for value in values if is_collection(value)]
    items = [item for cell in cells for item in list_items(cell)[:_MAX_ITEMS]]
    if items and all(isinstance(item, dict) and any(keys <= item.keys() for keys in _MEDIA) for item in items):
        return False
    may_be_empty = not any(isinstance(value, dict) for value in values)
    is_numbers = any(is_number(leaf) for cell in cells for leaf in _leaves(cell))
    return (may_be_empty and not is_numbers) or holds_texts(name, sample)


def holds_locations(name: str, sample: Sample) -> bool:
    """Whether most filled cells of a column are file names or addresses."""
    return _matches_pattern(name, sample, _FILE_NAME) or _matches_pattern(name, sample, _ADDRESS)


def _matches_pattern(name: str, sample: Sample, pattern: re.Pattern[str]) -> bool:
    """Whether most filled cells of a column, the items of their lists, or a text in their objects match a pattern."""
    cells = [item.values() if isinstance(item, dict) else [item] for item in _items(name, sample[:50])]
    texts = ([as_text(part)[:300] for part in parts if not is_collection(part)] for parts in cells)
    return bool(cells) and 2 * sum(any(map(pattern.fullmatch, item_texts)) for item_texts in texts) > len(cells)


def _items(name: str, sample: Sample) -> list[object]:
    cells = [row.get(name) for row in sample if not is_missing(row.get(name))]
    return [item for cell in cells for item in (list_items(cell)[:_MAX_ITEMS] if is_collection(cell) else [cell])]


def holds_texts(name: str, sample: Sample) -> bool:
    """Whether most filled cells of a column are objects with passages, or texts of several words."""

    def is_text(leaf: str | dict[str, object]) -> bool:
        return isinstance(leaf, dict) or _SEVERAL_WORDS.search(leaf[:1000]) is not None

    leaves = [item_leaves for item in _items(name, sample) if (item_leaves := [*_leaves(item)])]
    return 2 * sum(any(map(is_text, item_leaves)) for item_leaves in leaves) > len(leaves)


def _leaves(value: object, depth: int = 4) -> Iterator[str | dict[str, object]]:
    """Yield the texts of a cell, which may be a list of lists, and the objects that hold passages."""
    if isinstance(value, dict):
        yield from [value] if passages_in(value) else ()
    elif not is_collection(value):
        yield as_text(value)
    elif depth:
        for item in list_items(value)[:_MAX_ITEMS]:
            yield from _leaves(item, depth - 1)


def is_number(item: object) -> bool:
    """Whether an item of a cell is a number, also as text."""
    try:
        float(as_text(item))
    except (ValueError, TypeError):
        return False
    return not is_collection(item)


def _is_label(value: object) -> bool:
    """Whether a value can be the label of a row: a small whole number, or a word such as yes, no, O and X."""
    text = "" if is_collection(value) else as_text(value)
    if WHOLE_NUMBER.fullmatch(text):
        return abs(float(text)) <= _MAX_LABEL
    return parse_mark(text) is not None and not any(map(str.isdigit, text))


def assign_columns(names: Sequence[str], sample: Sample, selection: Selection | None = None) -> QuestionColumns:
    """Assign roles to the columns of rows; `selection` maps roles to columns that the user named."""
    filled = filled_columns(names, sample)
    given = {role: name for role, name in (selection or {}).items() if name is not None}

    def fits(role: str, name: str, find: FindColumn) -> bool:
        needs_texts = find is name_with_known_word and role == "context"
        needs_texts |= role == "positives" and _without_number(plain_name(name)) not in _UNAMBIGUOUS_LISTS
        return _fits(role, name, sample) and (not (needs_texts and sample) or holds_texts(name, sample))

    searches = ((known_name, filled), (known_name, names), (name_with_known_word, filled))
    roles = roles_by_name(NAMES, searches, given, fits)
    _replace_system_answers(roles, names, given)
    _add_by_values(roles, filled, sample)
    if "question" not in roles:
        question_column = find_question_column([name for name in filled if name not in roles.values()], sample)
        roles |= {} if question_column is None else {"question": question_column}
    for role in _unused_roles(roles, given, sample):
        del roles[role]
    columns = replace(QuestionColumns(**roles), **{role: None for role in selection or {} if role not in given})
    return _resolve_ids(columns, names, sample, given)


def filled_columns(names: Sequence[str], sample: Sample) -> list[str]:
    """Return the columns with a value in some row of a sample; all columns if there is no sample."""
    return [name for name in names if not sample or not all(is_missing(row.get(name)) for row in sample)]


def sibling_columns(role: str, name: str, names: Sequence[str]) -> tuple[str, ...]:
    """Return `name` and the other columns that hold passages of its role, such as negative_1 and negative_2."""
    known = NAMES.get(role, ())
    if _without_number(plain_name(name)) not in known:
        return (name,)
    return (name, *(other for other in names if other != name and _without_number(plain_name(other)) in known))


def columns_in_use(columns: Any, names: Sequence[str]) -> set[str]:
    """Return the columns with a role, including the siblings of columns of lists."""
    used: set[str] = set()
    for role, name in asdict(columns).items():
        if name is not None and (role != "answers" or columns.question is not None):
            used |= set(sibling_columns(role, name, names)) if role in _SIBLINGS else {name}
    return used


def candidate_columns(columns: QuestionColumns, names: Sequence[str], sample: Sample) -> tuple[QuestionColumns, ...]:
    """Return the possible columns, the likeliest first, for a table without clear passages or with unclear labels."""
    if is_ambiguous_label(columns, sample):
        questions = _texts(columns.question or "", sample)
        is_repeated = len(set(questions)) < len(questions)
        return () if is_repeated else (columns, replace(columns, label=None, answers=columns.label))
    if columns.context is not None or columns.positives is not None:
        return ()
    taken = columns_in_use(columns, names) - {columns.answers}
    texts = [name for name in names if name not in taken and _may_hold_passages(name, sample)]
    if columns.answers is not None and columns.question is not None and columns.answers not in texts:
        texts.append(columns.answers)
    if any(holds_texts(name, sample) for name in texts):
        texts = [name for name in texts if holds_texts(name, sample) or name == columns.answers]  # no ids
    texts.sort(key=lambda name: _is_excluded_passage_name(name) and name != columns.answers)
    answers = {name: None if name == columns.answers else columns.answers for name in texts}
    return tuple(replace(columns, context=name, answers=answers[name]) for name in texts)


def missing_passages_error(columns: QuestionColumns, names: Sequence[str], sample: Sample) -> DataError:
    """Return the error of a table without a known column of passages: its probable kind, and the next step."""
    contexts = [candidate.context for candidate in candidate_columns(columns, names, sample)]
    candidates = [name for name in contexts if name is not None]
    flags = " / ".join(map(column_flag, candidates[:_MAX_FLAGS])) or column_flag("NAME")
    details = {"available": display_text(", ".join(names), 300), "flags": flags}
    has_reference = columns.answers is not None and plain_name(columns.answers) in _REFERENCE_ANSWERS
    plain_names = {name: plain_name(name) for name in names}
    # an evaluation holds answers of a system, reference answers, and retrieved `contexts`
    is_evaluation = has_reference and not {"answer", "response"}.isdisjoint(plain_names.values())
    retrieved_names = {"contexts"} if is_evaluation else set()
    retrieved = [name for name, plain in plain_names.items() if _RETRIEVED.search(plain) or plain in retrieved_names]
    files = [name for name in names if holds_locations(name, sample)]
    if retrieved:
        details["columns"] = display_text(", ".join(retrieved), 80)
        return DataError.from_code(ProblemCode.EVALUATION_OUTPUT, **details)
    unmarked = [name for name in candidates if is_unclear_list(name, sample)]
    if unmarked and columns.question is not None:
        details["flags"] = " / ".join(map(column_flag, unmarked))
        return DataError.from_code(ProblemCode.UNMARKED_PASSAGES, **details, column=display_text(unmarked[0], 80))
    if files and columns.question is not None:
        return DataError.from_code(ProblemCode.DOCUMENTS_BY_NAME, **details, column=display_text(files[0], 80))
    others = [name for name in candidates if name != columns.answers and not _is_excluded_passage_name(name)]
    if columns.question is not None and columns.answers is not None and not others:
        details |= {"question": display_text(columns.question, 80), "answers": display_text(columns.answers, 80)}
        return DataError.from_code(ProblemCode.ANSWERS_ALONE, **details | {"flags": column_flag(columns.answers)})
    details |= {"role": "context", "known_names": example_names(NAMES["context"])}
    return DataError.from_code(ProblemCode.MISSING_COLUMN, **details)


def is_ambiguous_label(columns: QuestionColumns, sample: Sample) -> bool:
    """Whether a label may be the relevance of the passage, or the answer to a yes-no question."""
    name = columns.label
    if name is None or plain_name(name) not in _AMBIGUOUS_LABELS:
        return False
    if columns.context is None or columns.answers is not None:
        return False
    values = {as_text(row.get(name)).lower() for row in sample}
    return len(values) > 1 and values <= _YES_OR_NO


def unique_column(names: Sequence[str], sample: Sample) -> str | None:
    """Return the first column with a different value in every row, else the first column."""
    for name in names:
        values = [as_text(row.get(name)) for row in sample if not is_collection(row.get(name))]
        if len(values) == len(sample) == len(set(values)) and all(values):
            return name
    return names[0] if names else None


def column_flag(name: str, role: str = "context") -> str:
    """Return the command-line flag that names the column of a role."""
    option = f"{role}={display_text(name, 80)}"
    is_plain = re.fullmatch(r"[\w.=-]+", option) is not None  # `quote` knows only ASCII
    return f"--columns {option if is_plain else quote(option)}"


def _without_number(name: str) -> str:
    return name.rstrip("0123456789")


def _fits(role: str, name: str, sample: Sample) -> bool:
    values = [row.get(name) for row in sample if not is_missing(row.get(name))]
    if not sample:
        return role != "context" or not _is_excluded_passage_name(name)
    match role:
        case "context" | "positives" | "candidates":
            return _may_hold_passages(name, sample) and not (role == "context" and _is_excluded_passage_name(name))
        case "part":
            return bool(values) and all(map(parse_part, values))
        case "label":
            return bool(values) and (plain_name(name) in _UNAMBIGUOUS_LABELS or all(map(_is_label, values)))
        case "start":
            items = [item for value in values for item in list_items(value)]
            return bool(values) and all(WHOLE_NUMBER.fullmatch(as_text(item)) for item in items)
        case _:
            return role not in ("id", "passage_id", "kind") or not any(map(is_collection, values))


def _is_excluded_passage_name(name: str) -> bool:
    plain = plain_name(name)
    return plain in _NOT_PASSAGE_NAMES or _NOT_PASSAGE_PATTERN.search(plain) is not None


def _replace_system_answers(roles: dict[str, str], names: Sequence[str], given: Mapping[str, str]) -> None:
    """Use reference answers if there are any: `answer` and `contexts` then hold the output of a system."""
    reference = next((name for name in names if plain_name(name) in _REFERENCE_ANSWERS), None)
    answers = roles.get("answers")
    if reference is None or answers in (None, reference) or "answers" in given or reference in given.values():
        return
    roles["answers"] = reference
    if "context" not in given and plain_name(roles.get("context", "")) == "contexts":
        del roles["context"]


def _add_by_values(roles: dict[str, str], filled: Sequence[str], sample: Sample) -> None:
    """Add roles by values: published parts, and the answers in a column A next to Q."""
    left = [name for name in filled if name not in roles.values()]
    if "part" not in roles:
        several = [name for name in left if len({parse_part(row.get(name)) for row in sample}) > 1]
        parts = [name for name in several if _fits("part", name, sample)]
        roles |= {"part": parts[0]} if len(parts) == 1 else {}
    if "answers" not in roles and plain_name(roles.get("question", "")) == "q":
        answers = [name for name in left if plain_name(name) == "a"]
        roles |= {"answers": answers[0]} if answers else {}


def _unused_roles(roles: Mapping[str, str], given: Mapping[str, str], sample: Sample) -> list[str]:
    """Return the roles that need another column, which the table does not have."""
    unused = []
    if "question" not in roles:
        unused += ["positives", "negatives", "candidates", "label", "start", "passage_id", "impossible", "answers"]
    elif "context" not in roles:
        unused += ["label", "start", "passage_id", "impossible"]
    if "answers" not in roles:
        unused.append("start")
    cells = [row.get(roles.get("answers", "")) for row in sample] if "label" in roles else []
    answers = [display_text(cell, 20).lower() for cell in cells]
    if len(set(answers)) > 1 and {*answers} <= _YES_OR_NO and _is_bijective(answers, _texts(roles["label"], sample)):
        unused.append("label")  # repeats yes-no answers as marks
    context = roles.get("context", "")
    may_be_ids = {"question", "context"} <= roles.keys() and plain_name(context) not in _UNAMBIGUOUS_PASSAGES
    if may_be_ids and sample and all(is_number(row.get(context)) for row in sample):
        unused.append("context")  # ids of passages
    return [role for role in dict.fromkeys(unused) if role in roles and role not in given and role != "answers"]


def find_question_column(names: Sequence[str], sample: Sample) -> str | None:
    """Return the column in which most cells end in a question mark, if there is only one."""
    marks = {name: sum(as_text(row.get(name)).endswith(("?", "？")) for row in sample) for name in names}
    question_columns = [name for name, count in marks.items() if 2 * count > len(sample)]
    return question_columns[0] if len(question_columns) == 1 else None


def _resolve_ids(
    columns: QuestionColumns, names: Sequence[str], sample: Sample, given: Mapping[str, str]
) -> QuestionColumns:
    """Distinguish ids of questions from ids of passages: equal ids must belong to equal texts."""
    if columns.question is None:
        return columns if "id" in given else _resolve_passage_ids(columns, names, sample)
    if columns.context is None:
        return columns
    sample = [row for row in sample if not is_missing(row.get(columns.context))]  # other rows are damaged or empty
    if len(sample) < _MIN_ROWS:
        return columns
    questions = _texts(columns.question, sample)
    contexts = _texts(columns.context, sample)
    id_ = columns.id
    passage_id = columns.passage_id
    if id_ is not None and "id" not in given:
        values = _texts(id_, sample)
        if _is_bijective(values, contexts) and not _determines(values, questions):
            passage_id = passage_id or id_
            id_ = None
        elif columns.label is not None and len(set(zip(questions, values, strict=True))) > len(set(questions)):
            id_ = None  # it numbers the rows, and several rows share a question
        elif 2 * len(set(values)) < len(set(questions)):
            id_ = None
    if passage_id is not None and "passage_id" not in given and not _determines(_texts(passage_id, sample), contexts):
        passage_id = None  # several passages share it: it identifies their document
    return replace(columns, id=id_, passage_id=passage_id)


def _resolve_passage_ids(columns: QuestionColumns, names: Sequence[str], sample: Sample) -> QuestionColumns:
    """Use a column with a different value in every row as the ids of a table without questions."""
    taken = {name for role, name in asdict(columns).items() if name is not None and role != "id"}
    known = (*NAMES["passage_id"], *NAMES["id"])
    by_name = [name for plain in known for name in names if plain_name(name) == plain]
    others = [name for name in names if _ID_NAME.search(plain_name(name)) and name not in by_name]
    candidates = [name for name in dict.fromkeys([columns.id, *by_name, *others]) if name is not None]
    id_column = unique_column([name for name in candidates if name not in taken], sample)
    is_certain = id_column is not None and (id_column in by_name or id_column == columns.id or len(sample) >= _MIN_ROWS)
    return replace(columns, id=id_column if is_certain else columns.id, passage_id=None)


def _texts(name: str, sample: Sample) -> list[str]:
    return [display_text(row.get(name), 2000) for row in sample]


def _determines(keys: Sequence[str], values: Sequence[str]) -> bool:
    """Whether equal keys have equal values; empty keys are ignored."""
    known: dict[str, str] = {}
    return all(known.setdefault(key, value) == value for key, value in zip(keys, values, strict=True) if key)


def _is_bijective(ids: Sequence[str], texts: Sequence[str]) -> bool:
    pairs = [(id_, text) for id_, text in zip(ids, texts, strict=True) if id_ and text]
    if not pairs:
        return False
    ids, texts = zip(*pairs, strict=True)
    return _determines(ids, texts) and _determines(texts, ids)
