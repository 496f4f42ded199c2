"""Dictionaries are kept by their content, and found by reference, name, fingerprint and path."""

from pathlib import Path

import pytest

from data.workspace import workspace
from text.__main__ import main
from text.dictionary import DictionaryError, Word, read_dictionary, with_words
from text.kept_dictionaries import damaged, find, keep, load, remove, stored

ALICE, BOB = "a" * 32, "b" * 32
LINES = "# 주석\n세종시 세종 시\n자동차, 차량\n"
DICTIONARY = read_dictionary(LINES.encode())


def test_what_is_kept_is_loaded_as_it_was() -> None:
    kept = keep(DICTIONARY, "도시", source="cities.txt")
    assert stored() == [kept]
    assert (kept.name, kept.words, kept.synonyms, kept.source) == ("도시", 1, 1, "cities.txt")
    found = load(kept.key)
    assert (found.words, found.synonyms, found.fingerprint) == (
        DICTIONARY.words,
        DICTIONARY.synonyms,
        kept.fingerprint,
    )


def test_it_is_found_by_what_names_it(tmp_path: Path) -> None:
    kept = keep(DICTIONARY, "도시")
    assert kept.reference == f"dictionary:{kept.fingerprint[:16]}"
    assert find(kept.reference) == DICTIONARY
    for wanted in ("dictionary:", "dictionary:../" + kept.key):
        with pytest.raises(DictionaryError, match="도시") as raised:
            find(wanted)
        assert raised.value.code == "unknown"
    (tmp_path / "file.txt").write_text("서울\n", encoding="utf-8")
    assert find("file.txt", tmp_path).words == (Word("서울"),)


def test_an_edit_is_another_dictionary() -> None:
    kept = keep(DICTIONARY, "도시")
    edited = keep(with_words(load(kept.key), [Word("임세영")]), "도시")
    assert edited.key != kept.key
    assert find("도시") == load(edited.key)
    assert load(kept.key) == DICTIONARY
    assert keep(DICTIONARY, "again").key == kept.key
    assert [one.name for one in stored()] == ["again", "도시"]


def test_what_was_changed_is_not_used() -> None:
    kept = keep(DICTIONARY, "도시")
    folder = workspace() / "dictionaries" / kept.key
    (folder / "dictionary.txt").write_text("서울\n", encoding="utf-8")
    with pytest.raises(DictionaryError) as raised:
        load(kept.key)
    assert (raised.value.code, raised.value.details) == ("broken", {"name": "도시"})
    (folder / "set.json").write_text("{", encoding="utf-8")
    assert (stored(), damaged()) == ([], [kept.key])
    remove(kept.key)
    assert not folder.exists()
    with pytest.raises(DictionaryError):
        remove(kept.key)


def test_the_command_keeps_and_lists(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, wrong = tmp_path / "cities.txt", tmp_path / "wrong.txt"
    path.write_text(LINES, encoding="utf-8")
    wrong.write_text("가,\n나\tFOO\n", encoding="utf-8")
    assert main(["keep-dictionary", str(path)]) == 0
    assert main(["dictionaries"]) == 0
    kept = stored()[0]
    assert (
        capsys.readouterr().out.splitlines()
        == [f"{kept.reference}          1 words          1 groups of synonyms  cities"] * 2
    )
    assert main(["keep-dictionary", str(wrong)]) == 2
    errors = capsys.readouterr().err.splitlines()
    assert [line.split(":")[1] for line in errors] == [" row 1", " row 2"]
    assert main(["dictionaries", "--json"]) == 0
    assert kept.fingerprint in capsys.readouterr().out
