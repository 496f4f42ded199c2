"""Names of files in archives without the flag of UTF-8, and compressed files."""

import bz2
import gzip
import io
import lzma
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from mrc_workbench.data.apart import File
from mrc_workbench.data.formats.text import Content
from mrc_workbench.data.layouts.members import unpacked
from mrc_workbench.data.problems import DataError, ProblemCode
from mrc_workbench.data.questions.read import read_files

ROWS = b"question,context\nwhich river?,The Han flows here.\nwhich hill?,Bukhansan stands here.\n"


def zip_with_names(names: list[str], codec: str) -> bytes:
    """An archive as programs write it that give names in the code page of their system."""
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
def test_all_names_together_tell_their_encoding(names: list[str], codec: str) -> None:
    files = unpacked([File(Content(zip_with_names(names, codec)), "a.zip")])
    assert sorted(file.name for file in files) == sorted(f"{name}{number}" for number, name in enumerate(names))
    assert all(file.content.whole == ROWS for file in files)


def test_names_in_no_likely_encoding_stay_as_they_are() -> None:
    (file,) = unpacked([File(Content(zip_with_names(["\x81\x8d\x90"], "latin-1")), "a.zip")])
    assert file.content.whole == ROWS


def tarred(content: bytes) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as archive:
        entry = tarfile.TarInfo("../data/faq.csv")
        entry.size = len(content)
        archive.addfile(entry, io.BytesIO(content))
        archive.addfile(tarfile.TarInfo(".hidden"), io.BytesIO())
        link = tarfile.TarInfo("link.csv")
        link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
        archive.addfile(link)
    return out.getvalue()


@pytest.mark.parametrize("pack", [gzip.compress, bz2.compress, lzma.compress])
def test_compressed_files_are_read(pack: Callable[[bytes], bytes]) -> None:
    assert len(read_files([File(Content(pack(ROWS)), "faq.csv.packed")]).question_set.questions) == 2


@pytest.mark.parametrize("pack", [bytes, gzip.compress, bz2.compress, lzma.compress])
def test_tar_archives_are_unpacked_without_links(pack: Callable[[bytes], bytes]) -> None:
    (file,) = unpacked([File(Content(pack(tarred(ROWS))), "faq.tar")])
    assert (file.name, file.content.whole) == ("data/faq.csv", ROWS)


@pytest.mark.parametrize("pack", [gzip.compress, bz2.compress, lzma.compress])
@pytest.mark.parametrize("content", [ROWS, tarred(ROWS)])
def test_a_cut_archive_is_refused(pack: Callable[[bytes], bytes], content: bytes) -> None:
    with pytest.raises(DataError) as error:
        unpacked([File(Content(pack(content)[:-12]), "faq.csv.packed")])
    assert error.value.problem.code is ProblemCode.BROKEN_ARCHIVE


@pytest.mark.parametrize("pack", [gzip.compress, bz2.compress, lzma.compress])
def test_a_bomb_is_not_unpacked(pack: Callable[[bytes], bytes]) -> None:
    with pytest.raises(DataError) as error:
        unpacked([File(Content(pack(bytes(40_000_000))), "faq.csv.packed")])
    assert error.value.problem.code is ProblemCode.TOO_LARGE


def test_the_named_encoding_counts_for_the_files_of_an_archive() -> None:
    content = gzip.compress("질문,지문\n강은?,한강\n".encode("cp949"))
    (file,) = unpacked([File(Content(content, "Johab"), "faq.csv.gz")])
    assert file.content.named_encoding == "Johab"


def zipped(**contents: bytes) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in contents.items():
            archive.writestr(name.replace("_", "."), content)
    return out.getvalue()


def with_broken_checksum(content: bytes, name: str) -> bytes:
    """An archive in which the checksum of a member is wrong."""
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        right = archive.getinfo(name).CRC.to_bytes(4, "little")
    return content.replace(right, bytes(4))


BROKEN = {
    "gzip": zipped(a_csv=ROWS, b_csv_gz=gzip.compress(ROWS)[:-12]),
    "bzip2": zipped(a_csv=ROWS, b_csv_bz2=bz2.compress(ROWS)[:-12]),
    "xz": zipped(a_csv=ROWS, b_csv_xz=lzma.compress(ROWS)[:-12]),
    "checksum": with_broken_checksum(zipped(a_csv=ROWS, b_csv=ROWS + b"which lake?,The lake lies here.\n"), "b.csv"),
}


@pytest.mark.parametrize("kind", BROKEN)
def test_a_broken_member_is_set_aside_and_named(kind: str) -> None:
    reading = read_files([File(Content(BROKEN[kind]), "set.zip")])
    assert len(reading.question_set.questions) == 2
    (problem,) = reading.gaps
    assert problem.code is ProblemCode.BROKEN_ARCHIVE
    assert str(problem.details["file"]).startswith("b.csv")


@pytest.mark.parametrize("name", ["b.csv.gz", "b.zip", "b.tar.gz"])
def test_a_broken_archive_among_several_files_is_set_aside_and_named(name: str) -> None:
    broken = zipped(b_csv=ROWS)[:-30] if name == "b.zip" else gzip.compress(tarred(ROWS))[:-12]
    reading = read_files([File(Content(broken), name), File(Content(ROWS), "a.csv")])
    assert len(reading.question_set.questions) == 2
    assert [(problem.code, problem.details["file"]) for problem in reading.gaps] == [(ProblemCode.BROKEN_ARCHIVE, name)]


def test_an_archive_of_broken_members_is_refused() -> None:
    content = zipped(a_csv_gz=gzip.compress(ROWS)[:-12], b_csv_gz=gzip.compress(ROWS)[:-12])
    with pytest.raises(DataError) as error:
        read_files([File(Content(content), "set.zip")])
    assert error.value.problem.code is ProblemCode.BROKEN_ARCHIVE
    assert [problem.details["file"] for problem in error.value.others] == ["a.csv.gz", "b.csv.gz"]


@pytest.mark.parametrize("left", [["queries.jsonl"], ["queries.jsonl", "qrels.tsv"]])
def test_questions_are_no_passages_because_the_corpus_is_broken(left: list[str]) -> None:
    texts = {"corpus.jsonl": b'{"_id": "d1", "text": "The Han flows here."}\n', "qrels.tsv": b"q1\td1\t1\n"}
    texts["queries.jsonl"] = b'{"_id": "q1", "text": "which river?"}\n'
    packed = {name if name in left else f"{name}.gz": content for name, content in texts.items()}
    files = [
        File(Content(content if name in left else gzip.compress(content)[:-12]), name)
        for name, content in packed.items()
    ]
    with pytest.raises(DataError) as error:
        read_files(files)
    assert error.value.problem.code is ProblemCode.BROKEN_ARCHIVE


def test_a_bomb_among_the_members_is_refused() -> None:
    with pytest.raises(DataError) as error:
        read_files([File(Content(zipped(a_csv=ROWS, b_csv_gz=gzip.compress(bytes(40_000_000)))), "set.zip")])
    assert error.value.problem.code is ProblemCode.TOO_LARGE


@pytest.mark.parametrize("is_on_disk", [False, True])
def test_members_are_unpacked_when_they_are_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, is_on_disk: bool
) -> None:
    read: list[str] = []
    whole = zipfile.ZipFile.read

    def recorded(archive: zipfile.ZipFile, entry: zipfile.ZipInfo) -> bytes:
        read.append(entry.filename)
        return whole(archive, entry)

    monkeypatch.setattr(zipfile.ZipFile, "read", recorded)
    path = tmp_path / "docs.zip"
    path.write_bytes(zipped(a_txt=b"a" * 10_000, b_txt=b"b" * 10_000))
    files = unpacked([File(Content(path if is_on_disk else path.read_bytes()), "docs.zip")])
    assert [file.content.size for file in files] == [10_000, 10_000]
    assert read == []
    assert [file.content.whole[:1] for file in (*files, *reversed(files))] == [b"a", b"b", b"b", b"a"]
    assert read == ["a.txt", "b.txt", "a.txt"]
    with files[0].content.open() as opened:
        assert opened.read() == b"a" * 10_000
