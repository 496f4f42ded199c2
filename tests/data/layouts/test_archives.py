"""Names of files in archives without the flag of UTF-8, and compressed files."""

import bz2
import gzip
import io
import lzma
import tarfile
import zipfile
from collections.abc import Callable

import pytest

from data.apart import File
from data.formats.text import Content
from data.layouts.members import unpacked
from data.problems import DataError, ProblemCode
from data.questions.read import read_files

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
