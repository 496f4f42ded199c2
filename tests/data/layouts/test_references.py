"""How a cell names passages: by id, file name or title, one or several."""

import unicodedata
from collections.abc import Sequence

import pytest

from mrc_workbench.data.layouts.references import NameKind, PassageNames, named_passages

IDS = {
    "2023/휴가 규정.txt": 0,
    "2024/휴가 규정.txt": 1,
    "수당.txt#연차": 2,
    "수당.txt#야근": 3,
    "007.md": 4,
    "출장.txt": 5,
    "출장.pdf": 6,
}
TITLES = ("", "", "수당", "수당", "출장 안내")


def found(cell: object, kind: NameKind, ids: dict[str, int] | None = None) -> list[tuple[str, Sequence[int]]]:
    passages = PassageNames(IDS if ids is None else ids, lambda: TITLES)
    return [(name, [*positions]) for name, positions in named_passages(cell, kind, passages)]


@pytest.mark.parametrize(
    ("name", "positions"),
    [
        ("휴가 규정.txt", [0, 1]),
        ("휴가_규정.TXT", [0, 1]),
        ("2024/휴가 규정.txt", [1]),
        ("./자료/2024/휴가_규정", [1]),
        ("C:\\자료\\2023\\휴가 규정.txt", [0]),
        ("2022/휴가 규정.txt", [0, 1]),
        ("출장.PDF", [6]),
        ("출장", [5, 6]),
        ("수당", [2, 3]),
        ("수당.txt 3쪽", [2, 3]),
        ("수당.txt, p. 3-4", [2, 3]),
        ("출장.pdf (2페이지)", [6]),
        ("수당.txt#야근", [2, 3]),
        ("7", [4]),
        ("없는 문서.txt", []),
    ],
)
def test_files_are_found_by_name_and_folder(name: str, positions: list[int]) -> None:
    assert found(name, NameKind.FILE) == [(name, positions)]
    decomposed = unicodedata.normalize("NFD", name)
    assert found(decomposed, NameKind.FILE) == [(decomposed, positions)]


@pytest.mark.parametrize(
    "cell",
    ["D1, D3", "D1;D3", "D1|D3", "D1\nD3", "D1、D3", "D1/D3", "D1·D3", "D1 & D3", "D1 D3", "{D1;D3}", "['D1', 'D3']"],
)
def test_ids_of_one_cell_are_separated(cell: str) -> None:
    assert found(cell, NameKind.ID, {"D1": 0, "D2": 1, "D3": 2}) == [("D1", [0]), ("D3", [2])]


def test_an_unknown_id_of_a_list_is_named() -> None:
    assert found("D1, D9", NameKind.ID, {"D1": 0}) == [("D1", [0]), ("D9", [])]


def test_what_may_be_part_of_a_name_separates_only_known_names() -> None:
    assert found("출장 안내", NameKind.TITLE) == [("출장 안내", [4])]
    assert found("수당 규정", NameKind.TITLE) == [("수당 규정", [])]
    assert found("수당/출장 안내", NameKind.TITLE) == [("수당", [2, 3]), ("출장 안내", [4])]
