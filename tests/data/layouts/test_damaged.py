"""Damaged files of each layout are read or rejected with a message, and undamaged content stays unchanged."""

import copy
import io
import json
import random
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

import pandas as pd
import pytest

from mrc_workbench.data.layouts.references import Role
from mrc_workbench.data.problems import DataError
from mrc_workbench.data.questions.read import QuestionSetReading, read
from mrc_workbench.data.store import load, save_question_set, stored
from tests.data.layouts.public_layouts import LAYOUTS as PUBLIC_LAYOUTS
from tests.data.layouts.public_layouts import QUESTIONS, PublicLayout
from tests.data.layouts.test_files import CORPORA, JUDGED, NAMING, SHARDS, TAGGED, TOPICS, squad
from tests.data.layouts.written import LAYOUTS, Files, read_all, zipped
from tests.depth import sampled
from tests.doubles import small_set

VARIANTS = sampled(200, 100)
_PIECES = (b'"', b"\n", b"\t", b"<", b"</DOC>", b"<DOC>", b"{", b"]", b"\x00", b"\xff\xfe")
_NAMES = (b'"_id"', b'"text"', b'"docid"', b'"query"', b"DOCNO", b"<num>", b'"corpus"', b"rating", b'"id"')


def _flipped(content: bytes, draw: random.Random) -> bytes:
    changed = bytearray(content)
    for _ in range(draw.choice([1, 1, 3, 20])):
        changed[draw.randrange(len(changed))] ^= 1 << draw.randrange(8)
    return bytes(changed)


def _cut(content: bytes, draw: random.Random) -> bytes:
    start = draw.randrange(len(content))
    return content[:start] if draw.random() < 0.5 else content[:start] + content[start + draw.randrange(1, 80) :]


def _noise(content: bytes, draw: random.Random) -> bytes:
    start = draw.randrange(len(content))
    put = draw.choice([*_PIECES, draw.randbytes(9)])
    return content[:start] + put + content[start:]


def _shuffled(content: bytes, draw: random.Random) -> bytes:
    if content.startswith(b"PAR1"):
        return _table(content, lambda table: table.sample(frac=1, random_state=draw.randrange(99)))
    rows = content.splitlines(keepends=True)
    draw.shuffle(rows)
    return b"".join(rows)


def _without_column(content: bytes, draw: random.Random) -> bytes:
    if content.startswith(b"PAR1"):
        return _table(content, lambda table: table.drop(columns=draw.choice(list(table.columns))))
    rows = [row.split(b"\t") for row in content.splitlines()]
    column = draw.randrange(max(map(len, rows)))
    if len(rows[0]) > 1:
        return b"\n".join(b"\t".join(row[:column] + row[column + 1 :]) for row in rows) + b"\n"
    name = draw.choice(_NAMES)
    return content.replace(name, name.lower()[:2] + b"x" + name[-1:])


def _table(content: bytes, change: Callable[[pd.DataFrame], pd.DataFrame]) -> bytes:
    out = io.BytesIO()
    change(pd.read_parquet(io.BytesIO(content))).to_parquet(out, index=False)
    return out.getvalue()


DAMAGES = (_flipped, _cut, _noise, _shuffled, _without_column)


@cache
def _whole(name: str) -> QuestionSetReading:
    return read_all(LAYOUTS[name]())


@pytest.mark.slow
@pytest.mark.parametrize("name", LAYOUTS)
def test_reads_or_rejects_damaged_files_without_silent_loss(name: str) -> None:
    stored_set = save_question_set(small_set())
    files = LAYOUTS[name]()
    texts = {*_whole(name).question_set.passages.texts}
    outcomes = {"read": 0, "refused": 0}
    for seed in range(VARIANTS):
        draw = random.Random(seed)
        damaged_name = draw.choice([*files])
        damage = DAMAGES[seed % len(DAMAGES)]
        try:
            reading = read_all(files | {damaged_name: damage(files[damaged_name], draw)})
        except DataError as error:
            _assert_has_message(error)
            outcomes["refused"] += 1
            continue
        outcomes["read"] += 1
        _assert_consistent(reading, texts, seed, is_shuffled=damage is _shuffled)
        _assert_other_files_unchanged(_whole(name), reading, damaged_name)
    assert outcomes["read"] > 0
    assert outcomes["refused"] > 0 or len(files) > 1, "the other files of a collection are read"
    assert [entry.key for entry in stored()] == [stored_set.key]
    assert load(stored_set.key) == small_set()


def _assert_consistent(reading: QuestionSetReading, texts: set[str], seed: int, *, is_shuffled: bool) -> None:
    """Check that all rows are used or reported, judgements name passages of the set, and order is irrelevant."""
    assert len(reading.problems) >= bool(reading.left_out)
    assert len(reading.rejected) == reading.left_out
    assert all(problem.message for problem in (*reading.problems, *reading.gaps)), seed
    used = sum(file.row_count - file.left_out for file in reading.files)
    assert used + reading.left_out == reading.row_count or not reading.files
    known = {*reading.question_set.passages.ids}
    for question in reading.question_set.questions:
        assert known.issuperset(question.relevant), seed
        assert known.issuperset(question.grade_of), seed
    if is_shuffled and reading.layout and not reading.problems:
        assert texts.issuperset(reading.question_set.passages.texts), seed


def _assert_other_files_unchanged(whole: QuestionSetReading, reading: QuestionSetReading, damaged_name: str) -> None:
    """Check that the content of undamaged files is unchanged."""
    damaged = {file.role for file in whole.files if file.name.startswith(damaged_name)}
    common_roles = {file.role for file in reading.files} & {file.role for file in whole.files}
    if not {Role.PASSAGES, Role.QUESTIONS} <= common_roles or {file.role for file in whole.files} == damaged:
        return  # all rows come from a single file
    if Role.PASSAGES not in damaged:
        assert reading.question_set.passages == whole.question_set.passages
    if Role.QUESTIONS not in damaged:
        assert [q.text for q in reading.question_set.questions] == [q.text for q in whole.question_set.questions]


def _assert_has_message(error: DataError) -> None:
    assert len(str(error).encode()) > 20


@pytest.mark.parametrize("name", ["beir", "mteb", "trec_sgml"])
def test_rejects_damaged_zip_or_reads_it_unchanged(name: str) -> None:
    content = zipped(LAYOUTS[name]())
    whole = read(content, "set.zip").question_set
    refused = 0
    for seed in range(VARIANTS):
        draw = random.Random(seed)
        try:
            question_set = read((_flipped, _cut, _noise)[seed % 3](content, draw), "set.zip")
        except DataError as error:
            _assert_has_message(error)
            refused += 1
            continue
        names_lost = len(question_set.files) < len(LAYOUTS[name]()) or question_set.gaps
        assert {*question_set.question_set.passages} <= {*whole.passages}, f"{seed}: a checksum protects texts"
        assert names_lost or question_set.question_set == whole, seed
    assert refused > VARIANTS / 4


def test_rejects_zip_bombs_before_unpacking() -> None:
    bomb = zipped({"corpus.jsonl": bytes(40 << 20)})
    assert len(bomb) < 100_000
    with pytest.raises(DataError, match="unpacked bytes"):
        read(bomb, "bomb.zip")
    with pytest.raises(DataError, match="at most 10,000"):
        read(zipped({f"{number}.tsv": b"1\ta" for number in range(10_001)}), "many.zip")


def test_rejects_zip_with_wrong_member_size() -> None:
    content = zipped({"corpus.jsonl": b'{"_id": "a", "title": "t", "text": "b"}\n' * 50})
    size = (50 * 40).to_bytes(4, "little")
    with pytest.raises(DataError, match="cannot be unpacked"):
        read(content.replace(size, (7).to_bytes(4, "little")), "set.zip")


def test_never_uses_member_names_as_paths() -> None:
    files = {"../../../etc/corpus.jsonl": b'{"_id": "d", "title": "t", "text": "b"}\n', "C:\\queries.jsonl": b""}
    reading = read(zipped(files | {"/home/user/.ssh/x": b"1\t2\n", "__MACOSX/y": b"z"}), "../../set.zip")
    assert [file.name for file in reading.files] in ([], ["etc/corpus.jsonl"])
    assert reading.question_set.name == "set"
    assert list(reading.question_set.passages.ids) == ["d"]


def test_rejects_nested_archives() -> None:
    inner = zipped({"corpus.jsonl": b'{"_id": "d", "title": "t", "text": "b"}\n'})
    with pytest.raises(DataError, match="zip archive"):
        read(zipped({"inner.zip": inner}), "outer.zip")


def test_rejects_archives_with_descriptions_only() -> None:
    with pytest.raises(DataError, match="contains no data file"):
        read(zipped({"README.md": b"# set", "LICENSE": b"CC0"}), "set.zip")


_OTHERS: tuple[Any, ...] = (None, "", "글", 7, True, [], {}, ["글"], {"글": "글"}, [None], [[]], [{}], 1.5, " \n")


def mutate(content: bytes, seed: int) -> bytes:
    """Return a JSON or JSONL file with up to three random changes."""
    rng = random.Random(seed)
    values = parse_values(content.decode())
    for _ in range(rng.randint(1, 3)):
        positions = [position for value in values for position in _positions(value)]
        if positions:
            _change(*rng.choice(positions), rng)
    lines = [json.dumps(value, ensure_ascii=False) for value in values]
    return "\n".join(lines).encode()


def parse_values(text: str) -> list[Any]:
    """Return the value of a JSON text, or those of its lines."""
    try:
        return [json.loads(text)]
    except json.JSONDecodeError:
        return [json.loads(line) for line in text.splitlines() if line]


def _positions(value: Any) -> Iterator[tuple[Any, Any]]:
    """Yield each list or object, with each position or key in it."""
    if isinstance(value, (dict, list)):
        for key in value if isinstance(value, dict) else range(len(value)):
            yield value, key
            yield from _positions(value[key])


def _change(holder: Any, key: Any, rng: random.Random) -> None:
    match rng.randint(0, 5):
        case 0:
            del holder[key]
        case 1 if isinstance(holder, dict):
            value = holder.pop(key)
            holder[rng.choice(["이름", "questions", "context", "data", "id", "text", "answers", f"{key}2"])] = value
        case 2:
            holder[key] = [copy.deepcopy(holder[key])]
        case 3:
            holder[key] = {rng.choice(["text", "data", "이름"]): copy.deepcopy(holder[key])}
        case 4 if isinstance(holder, list):
            holder.insert(rng.randint(0, len(holder)), copy.deepcopy(holder[key]))
        case _:
            holder[key] = copy.deepcopy(rng.choice(_OTHERS))


def _paths(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Yield each value except objects and lists, with its path of keys."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from _paths(inner, f"{path}.{key}" if path else key)
    elif isinstance(value, list):
        for inner in value:
            yield from _paths(inner, path)
    else:
        yield path, value


def _is_reported(question: str, content: bytes, reading: QuestionSetReading) -> bool:
    """Whether a problem reports missing content, or an unused key holds the question."""
    if reading.problem_count or reading.gaps:
        return True
    unused = [name.replace("[]", "") for name in reading.unused_columns]
    paths = [path for value in parse_values(content.decode()) for path, text in _paths(value) if text == question]
    return any(f".{name}." in f".{path}." for path in paths for name in unused)


@pytest.mark.slow
@pytest.mark.parametrize("name", PUBLIC_LAYOUTS)
def test_reports_every_question_lost_by_mutation(name: str) -> None:
    refused = 0
    for seed in range(VARIANTS):
        content = mutate(PUBLIC_LAYOUTS[name].content, seed)
        try:
            reading = read(content, f"{seed}.json")
        except DataError:
            refused += 1
            continue
        texts = {question.text for question in reading.question_set.questions}
        texts |= {passage.text for passage in reading.question_set.passages}  # a renamed key may cause this
        expected = [question for question in QUESTIONS if json.dumps(question, ensure_ascii=False).encode() in content]
        lost = [question for question in expected if question not in texts]
        assert all(_is_reported(question, content, reading) for question in lost), (seed, lost)
    assert refused < VARIANTS / 2


@pytest.mark.parametrize("layout", PUBLIC_LAYOUTS.values(), ids=PUBLIC_LAYOUTS)
def test_reads_the_expected_counts(layout: PublicLayout) -> None:
    question_set = read(layout.content, "public.json").question_set
    text_of = {passage.id: passage.text for passage in question_set.passages}
    assert sorted(text_of.values()) == sorted(layout.texts)
    assert [question.text for question in question_set.questions] == list(layout.questions)
    assert [[text_of[id_] for id_ in q.relevant] for q in question_set.questions] == [[text] for text in layout.texts]
    judged = [grade for question in question_set.questions for grade in question.grade_of.values()]
    assert judged.count(0) == layout.not_relevant
    assert sum(bool(passage.title) for passage in question_set.passages) == layout.titles
    assert sum(bool(question.answers) for question in question_set.questions) == layout.answered


ARCHIVES: dict[str, Files] = {
    "parts": SHARDS["SQuAD"],
    "Parquet parts": SHARDS["Parquet"],
    "wider corpus": {"train.json": squad(0), **CORPORA["JSONL"]},
    "named documents": NAMING["id"],
    "named in Korean": NAMING["Korean"],
    "topics in tags": {"a.txt": TAGGED.encode(), "b.txt": TOPICS.encode(), "qrels.txt": JUDGED.encode()},
}


@pytest.mark.slow
@pytest.mark.parametrize("name", ARCHIVES)
def test_reads_or_rejects_damaged_archives_without_silent_loss(name: str) -> None:
    files = ARCHIVES[name]
    for seed in range(VARIANTS):
        draw = random.Random(seed)
        damaged_name = draw.choice([*files])
        mutation = DAMAGES[seed % len(DAMAGES)]
        try:
            reading = read(zipped(files | {damaged_name: mutation(files[damaged_name], draw)}), "set.zip")
        except DataError as error:
            _assert_has_message(error)
            continue
        _assert_nothing_lost(reading, files, seed)


def _assert_nothing_lost(reading: QuestionSetReading, files: Files, seed: int) -> None:
    """Check that every file is read or reported, and that skipped rows are listed."""
    messages = " ".join(gap.message for gap in reading.gaps)
    read_files = {file.name for file in reading.files}
    assert all(name in read_files or name in messages or not read_files for name in files), seed
    assert len(reading.rejected) == reading.left_out, seed
    known = {*reading.question_set.passages.ids}
    assert all(known.issuperset(question.grade_of) for question in reading.question_set.questions), seed
    assert reading.problems or reading.gaps or reading.question_set.questions, seed
