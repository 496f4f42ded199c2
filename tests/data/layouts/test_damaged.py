"""Two hundred damaged files of each layout: read, or refused in words; what was not damaged stays what it was."""

import gzip
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
from mrc_workbench.data.questions.read import Reading, read
from mrc_workbench.data.store import keep, load, stored
from tests.data.layouts.mutations import mutated, values_of
from tests.data.layouts.public_layouts import LAYOUTS as PUBLIC_LAYOUTS
from tests.data.layouts.public_layouts import QUESTIONS, PublicLayout
from tests.data.layouts.test_files import CORPORA, JUDGED, NAMING, SHARDS, TAGGED, TOPICS, squad
from tests.data.layouts.test_reading import problems
from tests.data.layouts.written import LAYOUTS, Files, read_all, zipped
from tests.doubles import small_set

VARIANTS = 200
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
    place = draw.randrange(max(map(len, rows)))
    if len(rows[0]) > 1:
        return b"\n".join(b"\t".join(row[:place] + row[place + 1 :]) for row in rows) + b"\n"
    name = draw.choice(_NAMES)
    return content.replace(name, name.lower()[:2] + b"x" + name[-1:])


def _table(content: bytes, change: Callable[[pd.DataFrame], pd.DataFrame]) -> bytes:
    out = io.BytesIO()
    change(pd.read_parquet(io.BytesIO(content))).to_parquet(out, index=False)
    return out.getvalue()


DAMAGES = (_flipped, _cut, _noise, _shuffled, _without_column)


@cache
def _whole(name: str) -> Reading:
    return read_all(LAYOUTS[name]())


@pytest.mark.slow
@pytest.mark.parametrize("name", LAYOUTS)
def test_damaged_files_are_read_or_refused_and_lose_nothing_unsaid(name: str) -> None:
    kept = keep(small_set())
    files = LAYOUTS[name]()
    texts = {*_whole(name).question_set.passages.texts}
    outcomes = {"read": 0, "refused": 0}
    for seed in range(VARIANTS):
        draw = random.Random(seed)
        hit = draw.choice([*files])
        damage = DAMAGES[seed % len(DAMAGES)]
        try:
            reading = read_all(files | {hit: damage(files[hit], draw)})
        except DataError as error:
            _told(error)
            outcomes["refused"] += 1
            continue
        outcomes["read"] += 1
        _held_against(reading, texts, seed, is_shuffled=damage is _shuffled)
        _others_are_whole(_whole(name), reading, hit)
    assert outcomes["read"] > 0
    assert outcomes["refused"] > 0 or len(files) > 1, "the other files of a collection are read"
    assert [one.key for one in stored()] == [kept.key]
    assert load(kept.key) == small_set()


def _held_against(reading: Reading, texts: set[str], seed: int, *, is_shuffled: bool) -> None:
    """Every row was used or is told; judgements name what is there; rows in another order are the same set."""
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


def _others_are_whole(whole: Reading, reading: Reading, hit: str) -> None:
    """What stands in files that were not hit is what it was."""
    damaged = {file.role for file in whole.files if file.name.startswith(hit)}
    told = {file.role for file in reading.files} & {file.role for file in whole.files}
    if not {Role.PASSAGES, Role.QUESTIONS} <= told or {file.role for file in whole.files} == damaged:
        return  # the rows of one file are all there is
    if Role.PASSAGES not in damaged:
        assert reading.question_set.passages == whole.question_set.passages
    if Role.QUESTIONS not in damaged:
        assert [one.text for one in reading.question_set.questions] == [
            one.text for one in whole.question_set.questions
        ]


def _told(error: DataError) -> None:
    assert len(str(error)) > 20
    str(error).encode()


@pytest.mark.parametrize("name", ["beir", "mteb", "trec_sgml"])
def test_a_damaged_zip_is_refused_or_the_same(name: str) -> None:
    content = zipped(LAYOUTS[name]())
    whole = read(content, "set.zip").question_set
    refused = 0
    for seed in range(VARIANTS):
        draw = random.Random(seed)
        try:
            found = read((_flipped, _cut, _noise)[seed % 3](content, draw), "set.zip")
        except DataError as error:
            _told(error)
            refused += 1
            continue
        names_lost = len(found.files) < len(LAYOUTS[name]()) or found.gaps
        assert {*found.question_set.passages} <= {*whole.passages}, f"{seed}: what has a checksum is never another text"
        assert names_lost or found.question_set == whole, seed
    assert refused > VARIANTS / 4


def test_what_unpacks_to_too_much_is_refused_unread() -> None:
    bomb = zipped({"corpus.jsonl": bytes(40 << 20)})
    assert len(bomb) < 100_000
    with pytest.raises(DataError, match="unpacked bytes"):
        read(bomb, "bomb.zip")
    with pytest.raises(DataError, match="at most 10,000"):
        read(zipped({f"{number}.tsv": b"1\ta" for number in range(10_001)}), "many.zip")


def test_a_packed_file_that_unpacks_to_too_much_is_refused() -> None:
    bomb = gzip.compress(bytes(60 << 20))
    for content, name in ((bomb, "corpus.jsonl.gz"), (zipped({"corpus.jsonl.gz": bomb}), "set.zip")):
        with pytest.raises(DataError, match="unpacked bytes"):
            read(content, name)
    with pytest.raises(DataError, match="cannot be unpacked"):
        read(gzip.compress(b"id\ttext\n" * 99)[:-9], "cut.gz")


def test_a_size_that_is_a_lie_is_refused() -> None:
    content = zipped({"corpus.jsonl": b'{"_id": "a", "title": "t", "text": "b"}\n' * 50})
    size = (50 * 40).to_bytes(4, "little")
    with pytest.raises(DataError, match="cannot be unpacked"):
        read(content.replace(size, (7).to_bytes(4, "little")), "set.zip")


def test_a_name_in_an_archive_is_no_path() -> None:
    files = {"../../../etc/corpus.jsonl": b'{"_id": "d", "title": "t", "text": "b"}\n', "C:\\queries.jsonl": b""}
    reading = read(zipped(files | {"/home/user/.ssh/x": b"1\t2\n", "__MACOSX/y": b"z"}), "../../set.zip")
    assert [file.name for file in reading.files] in ([], ["etc/corpus.jsonl"])
    assert reading.question_set.name == "set"
    assert list(reading.question_set.passages.ids) == ["d"]


def test_an_archive_in_an_archive_is_not_opened() -> None:
    inner = zipped({"corpus.jsonl": b'{"_id": "d", "title": "t", "text": "b"}\n'})
    with pytest.raises(DataError, match="zip archive"):
        read(zipped({"inner.zip": inner}), "outer.zip")


def test_only_a_description_is_no_data() -> None:
    with pytest.raises(DataError, match="contains no data file"):
        read(zipped({"README.md": b"# set", "LICENSE": b"CC0"}), "set.zip")


SEEDS = range(200)


def _paths(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Yield each value that is no object or list, with its path of keys."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from _paths(inner, f"{path}.{key}" if path else key)
    elif isinstance(value, list):
        for inner in value:
            yield from _paths(inner, path)
    else:
        yield path, value


def _is_reported(question: str, content: bytes, reading: Reading) -> bool:
    """Whether a problem says that something is missing, or an unused key holds the question."""
    if reading.problem_count or reading.gaps:
        return True
    unused = [name.replace("[]", "") for name in reading.unused_columns]
    paths = [path for value in values_of(content.decode()) for path, text in _paths(value) if text == question]
    return any(f".{name}." in f".{path}." for path in paths for name in unused)


@pytest.mark.slow
@pytest.mark.parametrize("name", PUBLIC_LAYOUTS)
def test_no_question_of_a_mutated_file_is_lost_in_silence(name: str) -> None:
    refused = 0
    for seed in SEEDS:
        content = mutated(PUBLIC_LAYOUTS[name].content, seed)
        try:
            reading = read(content, f"{seed}.json")
        except DataError:
            refused += 1
            continue
        found = {question.text for question in reading.question_set.questions}
        found |= {passage.text for passage in reading.question_set.passages}  # a key may call them so now
        given = [question for question in QUESTIONS if json.dumps(question, ensure_ascii=False).encode() in content]
        lost = [question for question in given if question not in found]
        assert all(_is_reported(question, content, reading) for question in lost), (seed, lost)
    assert refused < len(SEEDS) / 2


@pytest.mark.parametrize("layout", PUBLIC_LAYOUTS.values(), ids=PUBLIC_LAYOUTS)
def test_counts(layout: PublicLayout) -> None:
    found = read(layout.content, "public.json").question_set
    text_of = {passage.id: passage.text for passage in found.passages}
    assert sorted(text_of.values()) == sorted(layout.texts)
    assert [question.text for question in found.questions] == list(layout.questions)
    assert [[text_of[id_] for id_ in question.relevant] for question in found.questions] == [
        [text] for text in layout.texts
    ]
    judged = [grade for question in found.questions for grade in question.grade_of.values()]
    assert judged.count(0) == layout.not_relevant
    assert sum(bool(passage.title) for passage in found.passages) == layout.titles
    assert sum(bool(question.answers) for question in found.questions) == layout.answered


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
def test_damaged_archives_are_read_or_refused_and_lose_nothing_in_silence(name: str) -> None:
    files = ARCHIVES[name]
    messages: list[str] = []
    for seed in range(200):
        draw = random.Random(seed)
        hit = draw.choice([*files])
        mutation = DAMAGES[seed % len(DAMAGES)]
        try:
            reading = read(zipped(files | {hit: mutation(files[hit], draw)}), "set.zip")
        except DataError as error:
            messages.append(str(error))
            continue
        _nothing_is_lost(reading, files, seed)
    assert all(len(message) > 20 for message in messages)


def _nothing_is_lost(reading: Reading, files: Files, seed: int) -> None:
    """Every file is read or named; rows left out are listed."""
    told = " ".join(gap.message for gap in reading.gaps)
    read_files = {file.name for file in reading.files}
    assert all(name in read_files or name in told or not read_files for name in files), seed
    assert len(reading.rejected) == reading.left_out, seed
    known = {*reading.question_set.passages.ids}
    assert all(known.issuperset(one.grade_of) for one in reading.question_set.questions), seed
    assert problems(reading) or reading.gaps or reading.question_set.questions, seed
