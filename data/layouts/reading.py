"""The public way in to collections: files are told apart by what they hold, and become one question set."""

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from pathlib import PurePosixPath

from data.apart import File
from data.formats.columns import plain_name, require_columns
from data.formats.documents import DOCUMENTS
from data.formats.opening import Format, RecognisedFile, collector_paused, set_name, told_of
from data.formats.rows import Rejection
from data.formats.tables import shown
from data.layouts.builder import DatasetBuilder, id_problems
from data.layouts.sources import Fields, Role, Shape, Sighted, Source, sighted, stands_alone
from data.problems import DataError, Problem, ProblemCode
from data.records import QuestionSet


class Layout(StrEnum):
    """Whose layout a collection is in."""

    BEIR = "beir"
    MTEB = "mteb"
    TREC = "trec"
    MS_MARCO = "ms_marco"
    MIRACL = "miracl"
    MR_TYDI = "mr_tydi"
    AUTORAG = "autorag"
    LLAMA_INDEX = "llama_index"
    RAGAS = "ragas"
    QUEPID = "quepid"
    FILES = "files"  # nobody's: passages, questions and judgements in files of their own


_CALLED = {
    Layout.BEIR: "BEIR",
    Layout.MTEB: "MTEB",
    Layout.TREC: "TREC",
    Layout.MS_MARCO: "MS MARCO",
    Layout.MIRACL: "MIRACL",
    Layout.MR_TYDI: "Mr. TyDi",
    Layout.AUTORAG: "AutoRAG",
    Layout.LLAMA_INDEX: "LlamaIndex",
    Layout.RAGAS: "ragas",
    Layout.QUEPID: "Quepid",
    Layout.FILES: "collection",
}
_OF_QUESTIONS = ("query", "queries", "topic", "topics", "question", "questions")
_OF_PASSAGES = ("corpus", "collection", "passage", "passages", "docs", "documents", "doc")
_OF_JUDGEMENTS = ("qrels", "qrel", "default", "judgements", "judgments", "relevance")
_OTHERS = {"train", "dev", "test", "validation", "small", "of", "qa"}
_SAY_NOTHING = {*_OF_QUESTIONS, *_OF_PASSAGES, *_OF_JUDGEMENTS, *_OTHERS}
_WORD = re.compile(r"[a-z0-9]+", re.IGNORECASE)
_WORDS = re.compile(r"[^\W\d_]+")
_LOOKED_AT, _JUDGED = 500, 20_000  # rows
_SPARED = {ProblemCode.EMPTY_FILE, *DOCUMENTS}  # of one file; the others may make a collection without it


@dataclass(frozen=True)
class CollectionFile:
    """One file of a collection, what it holds, and how many of its rows could not be used."""

    name: str
    role: Role
    format: Format
    encoding: str
    row_count: int
    left_out: int
    first_rows: tuple[dict[str, str], ...] = field(repr=False)


@dataclass(frozen=True)
class Collected:
    """A collection that was read. `gaps` say what its files lack of each other."""

    question_set: QuestionSet
    layout: Layout
    files: tuple[CollectionFile, ...]
    gaps: tuple[Problem, ...]
    judgement_count: int
    passage_rows: int
    row_count: int
    rejection: Rejection
    recognised: RecognisedFile  # of the first file


@dataclass(frozen=True)
class Alone:
    """The one file of those given that is read by itself, and the names of the others."""

    file: File
    seen: Sighted
    aside: tuple[Problem, ...] = ()


def collected(files: Sequence[File], name: str, chosen: Mapping[str, str | None]) -> Collected | Alone:
    """Read files, those of archives unpacked before, as one collection; `name` is of the set where no file has one.

    `chosen` names columns by role, in every file that has them.

    What holds a table of questions with their passages, and no collection, is returned as it is. Raises `DataError` for
    a file that cannot be read (of several, the detail `file` names it), and where they make no collection together.
    """
    seen: list[tuple[File, Sighted]] = []
    refused: list[tuple[File, DataError]] = []
    for file in files:
        try:
            with told_of(file.name, files):
                seen.append((file, _sighted(file, chosen, is_alone=len(files) == 1)))
        except DataError as error:
            if len(files) == 1 or error.problem.code not in _SPARED:
                raise
            refused.append((file, error))
    if not seen:
        raise refused[0][1]
    require_columns(chosen, [column for _, one in seen for column in one.names])
    try:
        return _together(seen, [file.name for file, _ in refused], name)
    except DataError as error:
        if refused and error.problem.code is ProblemCode.NO_PASSAGES:
            raise refused[0][1] from error  # the passages may be in there
        raise


def _together(seen: Sequence[tuple[File, Sighted]], refused: Sequence[str], name: str) -> Collected | Alone:
    """Read files whose content is known as one collection; `refused` names those that were given beside them."""
    files = [file for file, _ in seen]
    found = [(file, one) for file, one in seen if one.sources]
    aside = [*refused, *(file.name for file, one in seen if not one.sources)]
    if len(files) == 1 or (len(found) == 1 and not stands_alone(found[0][1].sources[0])):
        file, one = found[0] if found else seen[0]
        if not one.sources or not stands_alone(one.sources[0]):
            return Alone(file, one, id_problems(ProblemCode.LEFT_ASIDE, aside if found else refused))
    sources = [source for _, one in seen for source in one.sources]
    if rows := [source.name for source in sources if source.role is Role.ROWS]:
        raise DataError.of(ProblemCode.NO_COLLECTION, found=shown(", ".join(rows), 200))
    sources = _told_apart(sources)
    _require_one(sources)
    if not any(source.role is Role.PASSAGES or getattr(source.fields, "positive", None) for source in sources):
        names = ", ".join(source.name for source in sources) or ", ".join(aside)
        raise DataError.of(ProblemCode.NO_PASSAGES, found=shown(names, 200))
    order = (Role.PASSAGES, Role.QUESTIONS, Role.JUDGEMENTS)
    sources.sort(key=lambda source: order.index(source.role))
    with collector_paused():
        layout = _layout(sources)
        return _gathered(sources, aside, layout, _named(files, layout, name))


def _sighted(file: File, chosen: Mapping[str, str | None], *, is_alone: bool) -> Sighted:
    try:
        return sighted(file, chosen)
    except DataError as error:
        if is_alone or error.problem.code in (ProblemCode.UNKNOWN_FORMAT, ProblemCode.WRONG_SHAPE):
            return Sighted([])  # alone it is for the reader of single files, which tells the same
        raise


def _gathered(sources: Sequence[Source], aside: Sequence[str], layout: Layout, name: str) -> Collected:
    builder = DatasetBuilder(names_files=len(sources) > 1)
    files: list[CollectionFile] = []
    for source in sources:
        with told_of(source.name, sources):
            rows, left_out = builder.add(source)
        told = source.recognised
        files.append(
            CollectionFile(source.name, source.role, told.format, told.encoding, rows, left_out, source.first_rows)
        )
    question_set = builder.question_set(name)
    return Collected(
        question_set=question_set,
        layout=layout,
        files=tuple(files),
        gaps=(*builder.gaps(), *id_problems(ProblemCode.LEFT_ASIDE, aside)),
        judgement_count=builder.judgement_count,
        passage_rows=builder.passage_rows or len(builder.passages),
        row_count=builder.row_count,
        rejection=builder.rejection,
        recognised=sources[0].recognised,
    )


def _told_apart(sources: Sequence[Source]) -> list[Source]:
    """Give the files of ids and texts their role: by their names, by whose ids are judged, and by their length."""
    judged = [source for source in sources if isinstance(source.fields, Fields) and source.fields.question_id]
    ids = {
        role: {id_ for source in judged for id_ in source.first(name, _JUDGED)}
        for role, name in ((Role.QUESTIONS, "question_id"), (Role.PASSAGES, "passage_id"))
    }
    roles = [_role_of(source, ids) if source.role is Role.TEXTS else source.role for source in sources]
    known = set(roles)
    lengths = {place: _length(sources[place]) for place, role in enumerate(roles) if role is None}
    longest = max(lengths.values(), default=0.0)
    for place, length in lengths.items():
        has_passages = Role.PASSAGES in known or (len(lengths) > 1 and length < longest)
        roles[place] = Role.QUESTIONS if has_passages else Role.PASSAGES
    return [replace(source, role=role or source.role) for source, role in zip(sources, roles, strict=True)]


def _role_of(source: Source, judged: Mapping[Role, set[str]]) -> Role | None:
    """The role of a file of ids and texts, by its name, its ids and its folders; None where none of them tells."""
    *folders, name = PurePosixPath(source.name).parts or ("",)
    return _by_name([name]) or _by_ids(source, judged) or _by_name(folders)


def _by_ids(source: Source, ids: Mapping[Role, set[str]]) -> Role | None:
    """Whose ids are judged; of a few the same number may belong to one of the other sort."""
    own = source.first("id", _LOOKED_AT)
    hits = {role: sum(id_ in known for id_ in own) for role, known in ids.items()}
    judged = [role for role, count in hits.items() if count]
    return judged[0] if len(judged) == 1 and 2 * hits[judged[0]] >= len(own) else None


def _by_name(parts: Sequence[str]) -> Role | None:
    for part in reversed(parts):
        words = set(map(str.lower, _WORD.findall(part)))
        for role, known in ((Role.QUESTIONS, _OF_QUESTIONS), (Role.PASSAGES, _OF_PASSAGES)):
            if words & set(known):
                return role
    return None


def _length(source: Source) -> float:
    texts = source.first("text", _LOOKED_AT)
    return sum(map(len, texts)) / max(1, len(texts))


def _require_one(sources: Sequence[Source]) -> None:
    """Raise `DataError` where the folders of an archive hold a collection each, as of several languages."""
    roles: defaultdict[str, set[Role]] = defaultdict(set)
    for source in sources:
        roles[_place(source.name)].add(source.role)
    whole = sorted(place for place, held in roles.items() if Role.PASSAGES in held and len(held) > 1)
    if len(whole) > 1:
        # files that lie in no folder are named by their passages
        outside = next((one.name for one in sources if one.role is Role.PASSAGES and not _place(one.name)), "")
        found = ", ".join(place or outside for place in whole)
        raise DataError.of(ProblemCode.SEVERAL_COLLECTIONS, found=shown(found, 300))


def _place(name: str) -> str:
    """The folder of a collection that a file lies in, with what its name tells beside its role, as ko of ko-corpus."""
    parts = PurePosixPath(name).parts
    for depth, part in enumerate(parts):
        words = _WORD.findall(part.lower().partition(".")[0])
        if (_SAY_NOTHING - _OTHERS) & set(words):
            told = [word for word in words if word not in _SAY_NOTHING and not word.isdigit()]
            return "/".join((*parts[:depth], *(["-".join(told)] if told else [])))
    return "/".join(parts[:-1])


def _layout(sources: Sequence[Source]) -> Layout:
    shapes = {source.shape for source in sources}
    for shape, layout in (
        (Shape.LLAMA_INDEX, Layout.LLAMA_INDEX),
        (Shape.AUTORAG, Layout.AUTORAG),
        (Shape.RAGAS, Layout.RAGAS),
        (Shape.TYDI, Layout.MR_TYDI),
        (Shape.RATINGS, Layout.QUEPID),
        (Shape.TRIPLES, Layout.MS_MARCO),
        (Shape.MARKUP, Layout.TREC),
    ):
        if shape in shapes:
            return layout
    by_role = {source.role: source for source in reversed(sources)}
    passages = by_role[Role.PASSAGES]
    id_ = plain_name(passages.fields.id or "")
    if passages.shape is Shape.LINES:
        return Layout.MS_MARCO
    if Shape.LINES in shapes:
        return Layout.MIRACL if id_ == "docid" and passages.fields.title else Layout.TREC
    if len(by_role) == 1 or id_ != "id":
        return Layout.MIRACL if id_ == "docid" and passages.fields.title else Layout.FILES
    judged = by_role.get(Role.JUDGEMENTS)
    is_beir = passages.recognised.format is Format.JSONL and (judged is None or judged.recognised.format is Format.TSV)
    if is_beir and passages.fields.id == "_id":
        return Layout.BEIR
    return Layout.MTEB if passages.recognised.format in (Format.PARQUET, Format.JSONL) else Layout.FILES


def _named(files: Sequence[File], layout: Layout, name: str) -> str:
    """The name of the set: the one given, the folder's, what a file's name tells beside its role, or the layout."""
    if name:
        return set_name(name, _CALLED[layout])
    folders = {PurePosixPath(file.name).parts[0] for file in files if "/" in file.name}
    if len(folders) == 1 and all("/" in file.name for file in files):
        return shown(folders.pop(), 100)
    stems = [set_name(file.name, "") for file in files]
    telling = (stem for stem in stems if len(stems) == 1 or {*_WORDS.findall(stem.lower())} - _SAY_NOTHING)
    return next(telling, "") or _CALLED[layout]
