"""Archives: file names without the UTF-8 flag, compressed and damaged files."""

import bz2
import gzip
import io
import lzma
import random
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from mrc_workbench.data.formats import text
from mrc_workbench.data.formats.opening import Format
from mrc_workbench.data.formats.text import Content
from mrc_workbench.data.layouts.members import unpack_files
from mrc_workbench.data.layouts.reading import Layout
from mrc_workbench.data.layouts.references import Role
from mrc_workbench.data.problems import DataError, ProblemCode
from mrc_workbench.data.questions.read import QuestionSetReading, read, read_file
from mrc_workbench.data.subprocess_reader import File
from tests.data.formats.written_documents import pdf, word
from tests.data.layouts.written import Files, jsonl, read_all, refuses, relevant, write_all, zipped

ROWS = b"question,context\nwhich river?,The Han flows here.\nwhich hill?,Bukhansan stands here.\n"


def zip_with_names(names: list[str], codec: str) -> bytes:
    """Return an archive with names in the code page of a system."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        for number, name in enumerate(names):
            archive.writestr("?" * len(name.encode(codec)) + str(number), ROWS)
    content = out.getvalue()
    for number, name in enumerate(names):
        raw = name.encode(codec)
        content = content.replace(b"?" * len(raw) + str(number).encode(), raw + str(number).encode())
    return content


@pytest.mark.parametrize(
    ("names", "codec"),
    [
        (["질문 모음", "문서 목록", "정답 표"], "cp949"),
        (["질문 모음", "문서 목록", "정답 표"], "utf-8"),
        (["よくある質問の一覧", "手続きについて", "お知らせ"], "shift_jis"),
        (["常见问题和答案", "文档的内容", "我们的说明"], "gbk"),
        (["常見問題和答案", "文件的內容", "我們的說明"], "big5"),
    ],
)
def test_detects_encoding_from_all_member_names(names: list[str], codec: str) -> None:
    files = unpack_files([File(Content(zip_with_names(names, codec)), "a.zip")])
    assert sorted(file.name for file in files) == sorted(f"{name}{number}" for number, name in enumerate(names))
    assert all(file.content.whole == ROWS for file in files)


def test_keeps_member_names_in_unknown_encodings() -> None:
    (file,) = unpack_files([File(Content(zip_with_names(["\x81\x8d\x90"], "latin-1")), "a.zip")])
    assert file.content.whole == ROWS


def tarred(content: bytes) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as archive:
        entry = tarfile.TarInfo("../data/faq.csv")
        entry.size = len(content)
        archive.addfile(entry, io.BytesIO(content))
        archive.addfile(tarfile.TarInfo(".hidden"), io.BytesIO())
        link = tarfile.TarInfo("link.csv")
        link.type = tarfile.SYMTYPE
        link.linkname = "/etc/passwd"
        archive.addfile(link)
    return out.getvalue()


@pytest.mark.parametrize("pack", [gzip.compress, bz2.compress, lzma.compress])
def test_reads_compressed_files(pack: Callable[[bytes], bytes]) -> None:
    assert len(read_all({"faq.csv.packed": pack(ROWS)}).question_set.questions) == 2


@pytest.mark.parametrize("pack", [bytes, gzip.compress, bz2.compress, lzma.compress])
def test_unpacks_tar_archives_without_links(pack: Callable[[bytes], bytes]) -> None:
    (file,) = unpack_files([File(Content(pack(tarred(ROWS))), "faq.tar")])
    assert (file.name, file.content.whole) == ("data/faq.csv", ROWS)


@pytest.mark.parametrize("pack", [gzip.compress, bz2.compress, lzma.compress])
@pytest.mark.parametrize("content", [ROWS, tarred(ROWS)])
def test_rejects_truncated_archives(pack: Callable[[bytes], bytes], content: bytes) -> None:
    with refuses(ProblemCode.BROKEN_ARCHIVE, "cannot be unpacked"):
        unpack_files([File(Content(pack(content)[:-12]), "faq.csv.packed")])


@pytest.mark.parametrize("pack", [gzip.compress, bz2.compress, lzma.compress])
def test_rejects_decompression_bombs(pack: Callable[[bytes], bytes]) -> None:
    with refuses(ProblemCode.TOO_LARGE, "unpacked bytes"):
        read(pack(bytes(40_000_000)), "faq.csv.packed")


def test_applies_the_given_encoding_to_archive_members() -> None:
    content = gzip.compress("질문,지문\n강은?,한강\n".encode("cp949"))
    (file,) = unpack_files([File(Content(content, "Johab"), "faq.csv.gz")])
    assert file.content.named_encoding == "Johab"


def with_broken_checksum(content: bytes, name: str) -> bytes:
    """Return an archive with a wrong checksum of a member."""
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        right = archive.getinfo(name).CRC.to_bytes(4, "little")
    return content.replace(right, bytes(4))


BROKEN = {
    "gzip": zipped({"a.csv": ROWS, "b.csv.gz": gzip.compress(ROWS)[:-12]}),
    "bzip2": zipped({"a.csv": ROWS, "b.csv.bz2": bz2.compress(ROWS)[:-12]}),
    "xz": zipped({"a.csv": ROWS, "b.csv.xz": lzma.compress(ROWS)[:-12]}),
    "checksum": with_broken_checksum(
        zipped({"a.csv": ROWS, "b.csv": ROWS + b"which lake?,The lake lies here.\n"}), "b.csv"
    ),
}


@pytest.mark.parametrize("kind", BROKEN)
def test_skips_and_reports_broken_members(kind: str) -> None:
    reading = read_all({"set.zip": BROKEN[kind]})
    assert len(reading.question_set.questions) == 2
    (problem,) = reading.gaps
    assert problem.code is ProblemCode.BROKEN_ARCHIVE
    assert str(problem.details["file"]).startswith("b.csv")


@pytest.mark.parametrize("name", ["b.csv.gz", "b.zip", "b.tar.gz"])
def test_skips_and_reports_a_broken_archive_among_files(name: str) -> None:
    broken = zipped({"b.csv": ROWS})[:-30] if name == "b.zip" else gzip.compress(tarred(ROWS))[:-12]
    reading = read_all({name: broken, "a.csv": ROWS})
    assert len(reading.question_set.questions) == 2
    assert [(problem.code, problem.details["file"]) for problem in reading.gaps] == [(ProblemCode.BROKEN_ARCHIVE, name)]


def test_rejects_archives_with_only_broken_members() -> None:
    content = zipped({"a.csv.gz": gzip.compress(ROWS)[:-12], "b.csv.gz": gzip.compress(ROWS)[:-12]})
    with refuses(ProblemCode.BROKEN_ARCHIVE) as error:
        read_all({"set.zip": content})
    assert [problem.details["file"] for problem in error.value.others] == ["a.csv.gz", "b.csv.gz"]


@pytest.mark.parametrize("left", [["queries.jsonl"], ["queries.jsonl", "qrels.tsv"]])
def test_does_not_read_questions_as_passages_if_the_corpus_is_broken(left: list[str]) -> None:
    texts = {"corpus.jsonl": b'{"_id": "d1", "text": "The Han flows here."}\n', "qrels.tsv": b"q1\td1\t1\n"}
    texts["queries.jsonl"] = b'{"_id": "q1", "text": "which river?"}\n'
    packed = {name if name in left else f"{name}.gz": content for name, content in texts.items()}
    files = {name: content if name in left else gzip.compress(content)[:-12] for name, content in packed.items()}
    with refuses(ProblemCode.BROKEN_ARCHIVE):
        read_all(files)


def test_rejects_bombs_among_members() -> None:
    with refuses(ProblemCode.TOO_LARGE, "unpacked bytes"):
        read_all({"set.zip": zipped({"a.csv": ROWS, "b.csv.gz": gzip.compress(bytes(40_000_000))})})


@pytest.mark.parametrize(
    "contents",
    [
        {"a.zip": zipped({"a.csv": bytes(6_000)}), "b.zip": zipped({"b.csv": bytes(6_000)})},
        {"a.zip": zipped({f"{name}.csv.gz": gzip.compress(bytes(6_000)) for name in "ab"})},
        {"a.zip": zipped({f"{name}.csv.gz": gzip.compress(random.Random(0).randbytes(3_000)) for name in "ab"})},
    ],
    ids=["several archives", "packed members", "members that packing does not shorten"],
)
def test_limits_the_unpacked_bytes_of_all_files_together(contents: Files, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(text, "MAX_UNPACKED_BYTES", 10_000)
    with refuses(ProblemCode.TOO_LARGE, "unpacked bytes"):
        read_all(contents)


@pytest.mark.parametrize("is_on_disk", [False, True])
def test_unpacks_members_lazily(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, is_on_disk: bool) -> None:
    read: list[str] = []
    whole = zipfile.ZipFile.read

    def recorded(archive: zipfile.ZipFile, entry: zipfile.ZipInfo) -> bytes:
        read.append(entry.filename)
        return whole(archive, entry)

    monkeypatch.setattr(zipfile.ZipFile, "read", recorded)
    path = tmp_path / "docs.zip"
    path.write_bytes(zipped({"a.txt": b"a" * 10_000, "b.txt": b"b" * 10_000}))
    files = unpack_files([File(Content(path if is_on_disk else path.read_bytes()), "docs.zip")])
    assert [file.content.size for file in files] == [10_000, 10_000]
    assert read == []
    assert [file.content.whole[:1] for file in (*files, *reversed(files))] == [b"a", b"b", b"b", b"a"]
    assert read == ["a.txt", "b.txt", "a.txt"]
    with files[0].content.open() as opened:
        assert opened.read() == b"a" * 10_000


LONG = "수달은 맑은 강에서 물고기를 잡는다. " * 60
FILES = {
    "자료/새.txt": "두루미는 들판에 온다.\n둘째 줄이다.\n\n다른 문단이다.\n".encode(),
    "자료/강/수달.md": f"# 수달\n\n{LONG}\n\n## 먹이\n\n{LONG}\n".encode(),
    "자료/누리.html": "<html><title>누리집</title><body><p>곰은 산에 산다.</p></body></html>".encode(),
    "자료/책.pdf": pdf(["호랑이는 숲에 산다."]),
    "자료/규정.docx": word(("휴가", 1), ("닷새를 쉰다.", 0)),
}
IDS = ["강/수달.md#1", "강/수달.md#먹이", "규정.docx", "누리.html", "새.txt", "책.pdf"]
TITLES = {"강/수달.md#1": "수달", "규정.docx": "휴가", "누리.html": "누리집", "새.txt": "새", "책.pdf": "책"}


def titles(reading: QuestionSetReading) -> dict[str, str]:
    return {passage.id: passage.title for passage in reading.question_set.passages}


def test_reads_an_archive_of_documents_as_corpus() -> None:
    reading = read(zipped(FILES), "자료.zip")
    assert sorted(titles(reading)) == IDS
    assert titles(reading).items() >= TITLES.items()
    assert (reading.layout, reading.gaps, reading.problems) == (Layout.DOCUMENTS, (), ())
    assert reading.question_set.questions == ()
    assert {file.format for file in reading.files} == {
        Format.TEXT, Format.MARKDOWN, Format.HTML, Format.PDF, Format.WORD,
    }  # fmt: skip


def test_reads_a_folder_like_its_archive(tmp_path: Path) -> None:
    write_all(tmp_path, FILES)
    folder = read_file(tmp_path / "자료")
    assert titles(folder) == titles(read(zipped(FILES), "자료.zip"))
    assert {file.role for file in folder.files} == {Role.PASSAGES}


@pytest.mark.parametrize("name", ["자료/강/수달.md", "자료/누리.html", "자료/책.pdf", "자료/규정.docx"])
def test_reads_a_single_document_by_sections(name: str) -> None:
    base = name.rpartition("/")[2]
    reading = read(FILES[name], base)
    assert sorted(titles(reading)) == [id_.removeprefix("강/") for id_ in IDS if base in id_]
    assert reading.question_set.name == base.partition(".")[0]


QUESTIONS = jsonl([{"_id": "q1", "text": "곰은 어디에 사나?"}, {"_id": "q2", "text": "두루미는 어디로 오나?"}])


def test_reads_documents_beside_questions_as_passages() -> None:
    judged = b"query-id\tcorpus-id\tscore\nq1\t\xeb\x88\x84\xeb\xa6\xac.html\t1\nq2\t\xec\x83\x88.txt\t1\n"
    reading = read_all({"queries.jsonl": QUESTIONS, "qrels.tsv": judged, **FILES})
    assert relevant(reading) == [("누리.html",), ("새.txt",)]
    assert sorted(titles(reading)) == IDS


CORPUS = {"corpus.jsonl": jsonl([{"_id": "d1", "title": "곰", "text": "곰은 산에 산다."}])}
QUERIES = jsonl([{"_id": "q1", "text": "곰은 어디에 사나?"}])
COLLECTION = {**CORPUS, "queries.jsonl": QUERIES, "test.tsv": b"query-id\tcorpus-id\tscore\nq1\td1\t1\n"}
BEAR_ROWS = {"rows.jsonl": jsonl([{"question": "곰은 어디에 사나?", "context": "곰은 산에 산다."}])}


@pytest.mark.parametrize(
    ("files", "documents"),
    [
        (CORPUS, {"notes.md": b"# notes", "guide.pdf": pdf(["a guide"])}),
        (COLLECTION, {"ids.txt": b"d1\nd2\n"}),
        (COLLECTION, {"notes.md": b"d1\nd2\n"}),
        (BEAR_ROWS, {"notes.md": b"# notes\n\nof the rows"}),
    ],
    ids=["corpus", "collection and ids", "collection and notes", "rows"],
)
def test_skips_documents_beside_passages(files: Files, documents: Files) -> None:
    reading = read_all(files | documents)
    assert list(reading.question_set.passages.texts) == ["곰은 산에 산다."]
    (gap,) = reading.gaps
    assert (gap.code, gap.details["examples"]) == (ProblemCode.DESCRIBING_DOCUMENTS, ", ".join(documents))


def test_reads_texts_with_ids_beside_documents_as_questions() -> None:
    reading = read_all({"texts.jsonl": QUESTIONS, **FILES})
    assert [question.id for question in reading.question_set.questions] == ["q1", "q2"]


def test_reports_description_files() -> None:
    files = {**FILES, "자료/README.md": b"# about", "자료/LICENSE": b"CC0", "자료/그림.png": b"\x89PNG"}
    reading = read(zipped(files), "자료.zip")
    assert sorted(titles(reading)) == IDS
    (gap,) = reading.gaps
    assert (gap.code, gap.details["ids"]) == (ProblemCode.DESCRIBING_FILES, 3)
    assert "README.md" in gap.message
    assert list(titles(read(b"# about\n\nText of it.", "README.md"))) == ["README.md"], "alone it is read"


def test_reports_unreadable_documents_and_reads_the_rest() -> None:
    files = {**FILES, "자료/잠긴.pdf": pdf(["비밀"], is_encrypted=True), "자료/스캔.pdf": pdf(["", ""])}
    reading = read(zipped(files), "자료.zip")
    assert sorted(titles(reading)) == IDS
    file_by_code = {gap.code: gap.details["file"] for gap in reading.gaps}
    codes = (ProblemCode.ENCRYPTED_DOCUMENT, ProblemCode.SCANNED_DOCUMENT)
    assert file_by_code == dict(zip(codes, ("자료/잠긴.pdf", "자료/스캔.pdf"), strict=True))


def test_rejects_only_unreadable_documents() -> None:
    with pytest.raises(DataError, match="has a password"):
        read(pdf(["비밀"], is_encrypted=True), "잠긴.pdf")
    with pytest.raises(DataError, match=r"b\.pdf: The PDF contains pictures"):
        read_all({"b.pdf": pdf([""]), "c.pdf": pdf([""])})


def test_merges_and_reports_equal_documents() -> None:
    reading = read_all({"a.md": b"# A\n\nThe same text.", "b.md": b"# B\n\nThe same text."})
    assert len(reading.question_set.passages) == 1
    (problem,) = [candidate for candidate in reading.problems if candidate.code is ProblemCode.MERGED_PASSAGES]
    assert "b.md → a.md" in problem.message
    assert reading.question_set.aliases == {"b.md": "a.md"}


def test_reads_a_single_line_text_as_document() -> None:
    assert titles(read_all({"a.txt": b"one word", "b.txt": b"first\nsecond"})) == {"a.txt": "a", "b.txt": "b"}


def test_reads_text_files_of_ids_beside_a_corpus() -> None:
    passages = jsonl([{"_id": "1", "title": "a", "text": "first"}, {"_id": "2", "title": "b", "text": "second"}])
    files = {"corpus.jsonl": passages, "queries.txt": b"q1\twho?\nq2\twhy?\n", "qrels.txt": b"q1 0 1 1\n"}
    assert relevant(read_all(files)) == [("1",), ()]


def test_resolves_documents_by_file_name() -> None:
    rows = "질문,문서\n수달은 무엇을 먹나?,수달.md\n새는 언제 오나?,자료/새.txt\n휴가는 며칠인가?,규정\n".encode()
    named = relevant(read(zipped({"질문.csv": rows, **FILES}), "모음.zip"))
    assert [sorted(ids) for ids in named] == [["강/수달.md#1", "강/수달.md#먹이"], ["새.txt"], ["규정.docx"]]


@pytest.mark.parametrize("column", ["source_doc", "doc_id", "file"])
def test_resolves_documents_of_golden_questions(column: str) -> None:
    rows = [
        {"question": "수달은 무엇을 먹나?", "expected_answer": "물고기", column: "수달.md"},
        {"question": "곰은 어디에 사나?", "expected_answer": "산", column: "누리.html"},
    ]
    named = relevant(read_all({"golden.jsonl": jsonl(rows), **FILES}))
    assert [sorted(ids) for ids in named] == [["강/수달.md#1", "강/수달.md#먹이"], ["누리.html"]]


def test_reports_an_unreadable_document_beside_judgements() -> None:
    questions = jsonl([{"_id": "q1", "text": "곰은 어디에 사나?"}])
    judged = "query-id\tcorpus-id\tscore\nq1\t누리.html\t1\n".encode()
    files = {"queries.jsonl": questions, "qrels.tsv": judged, "잠긴.pdf": pdf(["비밀"], is_encrypted=True), **FILES}
    reading = read_all(files)
    assert reading.question_set.questions[0].relevant == ("자료/누리.html",)
    assert reading.judgement_count == 1
    assert [gap.code for gap in reading.gaps] == [ProblemCode.ENCRYPTED_DOCUMENT]


def test_ignores_operating_system_files() -> None:
    files = {**FILES, "자료/~$규정.docx": b"\x05owner", "__MACOSX/자료/._새.txt": b"\0", "자료/Thumbs.db": b"\xd0\xcf"}
    reading = read(zipped(files), "자료.zip")
    assert (sorted(titles(reading)), reading.gaps) == (IDS, ())
    assert len(read(FILES["자료/새.txt"], "새.txt").question_set.passages) == 2, "text alone: one passage a paragraph"


def test_a_judged_file_counts_for_any_of_its_sections() -> None:
    questions = jsonl([{"_id": "q1", "text": "수달은 무엇을 먹나?"}, {"_id": "q2", "text": "새는?"}])
    judged = "query-id\tcorpus-id\tscore\nq1\t수달.md\t2\nq1\t새.txt\t0\nq2\t강/수달.md#먹이\t1\n".encode()
    reading = read_all({"queries.jsonl": questions, "qrels.tsv": judged, **FILES})
    first, second = reading.question_set.questions
    assert first.grade_of == {"강/수달.md#1": 2, "강/수달.md#먹이": 2, "새.txt": 0}
    assert [sorted(group) for group in first.groups] == [["강/수달.md#1", "강/수달.md#먹이"]]
    assert second.relevant == ("강/수달.md#먹이",)
    assert reading.gaps == ()


def test_reads_a_text_file_of_questions_by_line() -> None:
    documents = {"휴가.txt": "열닷새를 쉰다.".encode(), "문제.txt": "문제가 생기면 전화한다.\n밤에도 받는다.".encode()}
    reading = read(zipped({**documents, "질문.txt": "며칠을 쉬나?\n언제 쉬나?\n".encode()}), "자료.zip")
    assert len(reading.question_set.passages) == 2
    assert [question.text for question in reading.question_set.questions] == ["며칠을 쉬나?", "언제 쉬나?"]
