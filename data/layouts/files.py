"""How the files of a collection belong together: the role, the published part and the folder of each.

A JSON object by id holds passages, judgements or answers; the ids in the other files decide which.
"""

import re
import unicodedata
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice, takewhile
from pathlib import PurePosixPath
from typing import Any

from mrc_workbench.data.apart import File
from mrc_workbench.data.formats.columns import Columns
from mrc_workbench.data.formats.opening import told_of
from mrc_workbench.data.formats.tables import answers_in, as_text, is_blank, is_collection, shown
from mrc_workbench.data.formats.text_tables import json_table
from mrc_workbench.data.layouts import objects
from mrc_workbench.data.layouts.cells import list_items
from mrc_workbench.data.layouts.exports import is_named_prediction
from mrc_workbench.data.layouts.references import canonical_id, file_key, part_of_path, published_parts
from mrc_workbench.data.layouts.roles import Chosen, assign_columns
from mrc_workbench.data.layouts.sighting import SeenFiles, Sighted, row_source
from mrc_workbench.data.layouts.sources import Role, Shape, Source, as_questions
from mrc_workbench.data.problems import DataError, Problem, ProblemCode

_QUESTION_WORDS = ("query", "queries", "qry", "topic", "topics", "question", "questions", "질문", "질의", "문제")
_PASSAGE_WORDS = (
    "corpus", "collection", "passage", "passages", "docs", "documents", "doc",
    "문서", "지문", "본문", "코퍼스", "말뭉치",
)  # fmt: skip
_JUDGEMENT_WORDS = {"qrels", "qrel", "judgements", "judgments", "relevance", "relevant", "판정"}
_ANSWER_WORDS = {"answer", "answers", "정답", "답변"}
_ROLE_WORDS = {*_QUESTION_WORDS, *_PASSAGE_WORDS, *_JUDGEMENT_WORDS, "rel", "default"}
# they do not tell one collection from another
PLAIN_WORDS = _ROLE_WORDS | {"train", "dev", "test", "validation", "small", "of", "qa", "answers"}
_WORD = re.compile(r"[a-z0-9]+|[가-힣]+")
_SAMPLE_ROWS, _JUDGED_ROWS = 500, 20_000
_WITH_IDS = (Role.TEXTS, Role.PASSAGES, Role.QUESTIONS)  # roles that judged ids may correct
_ASKING = (Role.QUESTIONS, Role.ROWS)
_DIVIDED = (Role.QUESTIONS, Role.JUDGEMENTS, Role.ROWS)  # roles whose files are published in parts
_MOST_ROWS = 20_000  # of nested data that are looked at
_LONGEST_ANSWER, _LONGEST_NAME = 200, 200  # characters


def holds_passages(source: Source) -> bool:
    """Whether the rows of a source hold passages: a corpus, or questions with theirs."""
    return source.role is Role.PASSAGES or (source.role in _ASKING and source.columns.has_passages)


def words_of(name: str) -> list[str]:
    """Return the English and Korean words of a name, in lower case."""
    return _WORD.findall(unicodedata.normalize("NFC", name).lower())


def with_roles(sources: Sequence[Source]) -> list[Source]:
    """Return the sources with their roles: by the ids that are judged, by names, by the length of the texts.

    If judged ids tell questions from passages, they come before tags and names: topics may stand in <DOC> tags.
    """
    judgements = [source for source in sources if source.role is Role.JUDGEMENTS and source.columns.id]
    judged = {
        role: {canonical_id(id_) for source in judgements for id_ in source.first(name, _JUDGED_ROWS) if id_}
        for role, name in ((Role.QUESTIONS, "id"), (Role.PASSAGES, "passage_id"))
    }
    sources = [_with_judged_id(source, judged[Role.PASSAGES]) for source in sources]
    by_ids = [_role_by_ids(source, judged) for source in sources]
    others = {role for source, role in zip(sources, by_ids, strict=True) if source.role in _WITH_IDS} - {Role.QUESTIONS}
    is_sure = Role.QUESTIONS in by_ids and bool(others)
    roles = [_role_of(source, role, is_sure=is_sure) for source, role in zip(sources, by_ids, strict=True)]
    unsure = [row for row, role in enumerate(roles) if role is Role.TEXTS]
    texts = {row: sources[row].first("context", _SAMPLE_ROWS) for row in unsure}
    lengths = {row: sum(map(len, texts[row])) / max(1, len(texts[row])) for row in unsure}
    longest = max(lengths.values(), default=0.0)
    has_passages = Role.PASSAGES in roles
    for row, length in lengths.items():
        is_question = has_passages or (len(lengths) > 1 and length < longest)
        roles[row] = Role.QUESTIONS if is_question else Role.PASSAGES
    return [_in_role(source, role) for source, role in zip(sources, roles, strict=True)]


def _with_judged_id(source: Source, judged: set[str]) -> Source:
    """The source of a corpus with the column of ids that judgements name, if the sample shows one."""
    columns = source.columns
    if source.role is not Role.PASSAGES or not judged:
        return source
    taken = {columns.context, columns.title, source.metadata}
    free = [name for name in source.names if name not in taken]
    hits = {name: len(judged & {canonical_id(as_text(row.get(name))) for row in source.sample}) for name in free}
    best = max(hits, key=lambda name: (hits[name], name == columns.id), default=None)
    return replace(source, columns=replace(columns, id=best)) if best is not None and hits[best] else source


def _role_of(source: Source, by_ids: Role | None, *, is_sure: bool) -> Role:
    if is_sure and by_ids is not None:
        return by_ids
    if source.role is not Role.TEXTS:
        return source.role
    *folders, name = PurePosixPath(source.name).parts or ("",)
    return role_by_name([name]) or by_ids or role_by_name(folders) or Role.TEXTS


def _role_by_ids(source: Source, judged: Mapping[Role, Collection[str]]) -> Role | None:
    """The role whose judged ids the source has. Small numbers may be ids of both: then the role that is complete."""
    id_column = source.columns.id
    if source.role not in _WITH_IDS or id_column is None or not all(judged.values()):
        return None
    own = [canonical_id(as_text(row.get(id_column))) for row in source.sample]
    hits = {role: sum(id_ in ids for id_ in own) for role, ids in judged.items()}
    roles = [role for role, count in hits.items() if count]
    if len(roles) == 1:
        return roles[0] if 2 * hits[roles[0]] >= len(own) else None
    if not roles or source.role is not Role.TEXTS or role_by_name([PurePosixPath(source.name).name]):
        return None
    whole = {canonical_id(id_) for id_ in source.first("id", _JUDGED_ROWS)}
    complete = [role for role, ids in judged.items() if whole.issuperset(ids)]
    return complete[0] if len(complete) == 1 else None


def role_by_name(names: Sequence[str]) -> Role | None:
    """Return what the last of some names of a file and its folders that tells it says: questions or passages."""
    for name in reversed(names):
        words = words_of(name)
        for role, known in ((Role.QUESTIONS, _QUESTION_WORDS), (Role.PASSAGES, _PASSAGE_WORDS)):
            korean = tuple(word for word in known if not word.isascii())
            if any(word in known or word.startswith(korean) for word in words):
                return role
    return None


def _in_role(source: Source, role: Role) -> Source:
    """The source in a role; the title of an entry without a text is what a question asks."""
    columns = source.columns
    if role is source.role:
        return source
    if role is Role.PASSAGES:
        return replace(source, role=role, columns=replace(columns, context=columns.context or columns.question))
    is_blank_text = all(is_blank(row.get(columns.context or "")) for row in source.sample)
    if source.role is Role.PASSAGES and columns.context and columns.title and is_blank_text:
        columns = replace(columns, context=columns.title, title=None)
    return replace(source, role=role, columns=replace(columns, question=columns.context, context=None))


def with_parts(sources: Sequence[Source]) -> list[Source]:
    """Return the sources with the parts that files and folders name; common folders name the collection."""
    divided = [source.name for source in sources if source.role in _DIVIDED]
    levels = zip(*(PurePosixPath(name).parts[:-1] for name in divided), strict=False)
    shared = sum(1 for _ in takewhile(lambda names: len({*names}) == 1, levels))
    inner_path = {name: "/".join(PurePosixPath(name).parts[shared:]) for name in divided}
    part_of = published_parts(inner_path.values())
    return [replace(source, part=part_of.get(inner_path.get(source.name, ""), "")) for source in sources]


def require_one_collection(sources: Sequence[Source]) -> None:
    """Raise `DataError` if several folders of an archive hold a collection each, as of several languages."""
    roles: defaultdict[str, set[Role]] = defaultdict(set)
    for source in sources:
        roles[_collection_path(source.name)].add(source.role)
    whole = sorted(path for path, held in roles.items() if Role.PASSAGES in held and len(held) > 1)
    if len(whole) > 1:
        # files that lie in no folder are named by their passages
        passages = (one.name for one in sources if one.role is Role.PASSAGES and not _collection_path(one.name))
        outside = next(passages, "")
        found = ", ".join(path or outside for path in whole)
        raise DataError.of(ProblemCode.SEVERAL_COLLECTIONS, found=shown(found, 300))


def _collection_path(name: str) -> str:
    """The folder of a collection that a file lies in, with what its name tells beside its role, as ko of ko-corpus."""
    parts = PurePosixPath(name).parts
    for depth, part in enumerate(parts):
        words = words_of(part.partition(".")[0])
        if _ROLE_WORDS & set(words):
            telling = [word for word in words if word not in PLAIN_WORDS and not word.isdigit()]
            return "/".join((*_folders(parts[:depth]), *(["-".join(telling)] if telling else [])))
    return "/".join(_folders(parts[:-1]))


def _folders(names: Sequence[str]) -> list[str]:
    """Folders that tell collections apart: not those of a published part, such as train."""
    return [name for name in names if not (part_of_path(name) and len(words_of(name)) == 1)]


def source_beside_others(file: File, seen: Sighted, chosen: Chosen) -> Source:
    """Return the source of a file that its columns make no collection, read beside others.

    Rows without a passage are questions; other files may hold what they name. Raises `DataError` if it has neither.
    """
    given = {role: name for role, name in chosen.items() if name in seen.names}
    source = row_source(file, seen, given)
    columns = source.columns
    if columns.has_passages:
        return source
    asked = [as_text(row.get(columns.question or "")) for row in source.sample]
    are_ids = all(text.isascii() and len(text.split()) <= 1 for text in asked)  # single words
    if columns.question is None or are_ids:
        cells = (as_text(cell) for row in source.sample for cell in row.values() if not is_collection(cell))
        code = ProblemCode.NO_KNOWN_COLUMN if any(" " in cell for cell in cells) else ProblemCode.ONLY_IDS
        raise DataError.of(code, found=shown(", ".join(source.names), 300))
    return as_questions(source)


@dataclass
class _Known:
    """What a file says of ids: which questions have an answer, and what else its columns name."""

    has_answer: dict[str, bool] = field(default_factory=dict)
    names: defaultdict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    passage_ids: set[str] = field(default_factory=set)
    has_passages: bool = False


def with_objects_by_id(
    seen: SeenFiles,
) -> tuple[list[tuple[File, Sighted]], tuple[Problem, ...]]:
    """Return the files, objects by id in their roles, and why some of these objects are not read.

    Keys may be ids of questions or passages in other files. By questions an object holds judgements or answers.
    """
    if len(seen) == 1 or not any(_object(one) for _, one in seen):
        return list(seen), ()
    known = [_known(file.name, one) for file, one in seen]
    settled: list[tuple[File, Sighted]] = []
    aside: list[Problem] = []
    for number, (file, one) in enumerate(seen):
        others = [*known[:number], *known[number + 1 :]]
        try:
            with told_of(file.name, seen):
                is_object = bool(_object(one)) and not known[number].has_answer
                settled.append((file, _settled(file.name, one, others) if is_object else one))
        except DataError as error:
            aside.append(error.problem)
    return settled, tuple(aside)


def _object(one: Sighted) -> dict[str, Any]:
    """Return the object of a file that may be one by id, {} for any other file."""
    value = one.recognised.value if one.recognised is not None else None
    is_nested = any(source.shape is Shape.NESTED for source in one.sources)
    return value if isinstance(value, dict) and not is_nested else {}


def _known(name: str, one: Sighted) -> _Known:
    known = _Known()
    for columns, role, rows in _readings(name, one):
        known.has_passages |= role is Role.PASSAGES or (role is Role.ROWS and columns.has_passages)
        asks = role is Role.QUESTIONS or (role is Role.ROWS and columns.question is not None)
        for row in rows:
            id_ = as_text(row.get(columns.id or ""))
            if asks and id_:
                answers = answers_in(row.get(columns.answers or ""))
                known.has_answer[id_] = known.has_answer.get(id_, False) or bool(answers)
            elif role is Role.PASSAGES:
                known.passage_ids.add(id_)
            for column, cell in row.items():
                if column != columns.id:
                    texts = ("" if is_collection(item) else as_text(item) for item in list_items(cell))
                    known.names[column].update(file_key(text) for text in texts if 0 < len(text) <= _LONGEST_NAME)
    return known


def _readings(name: str, one: Sighted) -> Iterator[tuple[Columns, Role, Iterable[Mapping[str, object]]]]:
    """Yield the columns, the role and some rows of each source of a file."""
    for source in one.sources:
        if source.shape is Shape.NESTED:
            yield source.columns, source.role, (row.cells for row in islice(source.table().rows, _MOST_ROWS))
        elif source.role is not Role.ROWS:
            by_name = role_by_name([PurePosixPath(name).name]) or Role.PASSAGES
            yield source.columns, by_name if source.role is Role.TEXTS else source.role, source.sample
    if one.table is not None and all(source.role is Role.ROWS for source in one.sources):
        yield assign_columns(one.names, one.sample), Role.ROWS, one.sample


def _settled(name: str, one: Sighted, others: Sequence[_Known]) -> Sighted:
    """Return an object by id in its role. Raises `DataError` for predictions, and for ids that no other file knows."""
    value, recognised = _object(one), one.recognised
    role = one.sources[0].role if one.sources else None
    is_by_id = any(source.shape is Shape.BY_ID for source in one.sources)
    file_name = PurePosixPath(name).name
    words = {*words_of(file_name)}
    role_in_name = role_by_name([file_name])
    has_answer = {id_: has for other in others for id_, has in other.has_answer.items()}
    is_by_question = 2 * len(has_answer.keys() & value.keys()) > len(has_answer)
    if role is Role.JUDGEMENTS and (words & _JUDGEMENT_WORDS or (is_by_question and _names_any(value, others))):
        return one
    is_answered = is_by_question and role_in_name is None and objects.may_hold_answers(value)
    if is_answered and any(other.has_passages for other in others) and (words & _ANSWER_WORDS or _are_answers(value)):
        are_predicted = objects.holds_predictions(value) or is_named_prediction(name)
        if recognised is None or are_predicted or any(has_answer.values()):
            raise DataError.of(ProblemCode.PREDICTIONS, name=file_name)
        columns = Columns(id="id", answers="answers")
        given = objects.ANSWER_NAMES, objects.answers_opener(value), recognised
        return Sighted([Source(name, Role.ANSWERS, Shape.BY_ID, columns, *given)], recognised)
    keys = {file_key(id_) for id_ in value}
    cells = [names for other in others for names in other.names.values()]
    is_named = any(2 * len(names & keys) > min(len(names), len(keys)) for names in cells)
    if role is Role.TEXTS and is_named:
        return replace(one, sources=[replace(one.sources[0], role=Role.PASSAGES)])
    if is_by_id and (role is not Role.TEXTS or role_in_name is None):
        json_table(value)  # refuses it: nothing says what the keys are
    return one


def _names_any(value: Mapping[str, Any], others: Sequence[_Known]) -> bool:
    """Whether lists of ids, or grades by id, name any passage of the other files."""
    return any(id_ in other.passage_ids for ids in value.values() for id_ in ids for other in others)


def _are_answers(value: Mapping[str, Any]) -> bool:
    """Whether the values by question are answers; passages, whose texts are long, may have the same numbers as ids."""
    lengths = [len(item) for item in value.values() if isinstance(item, str)]
    return not all(map(str.isdigit, value)) or sum(lengths) <= _LONGEST_ANSWER * len(lengths)
