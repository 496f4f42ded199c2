"""The caches of the pages: separate by workspace, and by the content of dictionaries and models."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest
from streamlit.runtime.scriptrunner_utils.script_run_context import in_cached_function

from mrc_workbench.data.pairs import PairKind, PairSet
from mrc_workbench.data.pairs import store as pair_store
from mrc_workbench.data.problems import DataError
from mrc_workbench.data.split import Part, SplitOptions, split
from mrc_workbench.data.store import load, save_question_set
from mrc_workbench.data.text import dictionary as dictionary_store
from mrc_workbench.data.text.dictionary import Dictionary, DictionaryError, Word
from mrc_workbench.data.workspace import PROJECT, acting_as, user_of, workspace
from mrc_workbench.labs.language.pages.resources import predict_checkpoints, scores_by_layer
from mrc_workbench.workbench.views.resources.retrieval import dictionary_of, has_cut_words, words_cut_wrongly
from mrc_workbench.workbench.views.resources.sets import audit_of, cached, question_set, split_of
from tests.doubles import small_set
from tests.labs.language.tiny_bert import PEAR, SHIP, write_model
from tests.workbench.views.compare.worlds import sample

ALICE = user_of("https://id.example.org", "alice")
BOB = user_of("https://id.example.org", "bob")
# caches that all workspaces share, with the reason
SHARED = {
    "workbench/views/resources/sets.py: Cached.__init__": "the cache of each workspace",
    "workbench/views/ui/charts.py: render_chart": "depends only on its arguments: tables and words",
    "workbench/views/train/base.py: _hub_executor": "threads, which run as the current user",
    "workbench/views/train/base.py: hub_answer": "public metadata of the hub",
    "workbench/views/access.py: _content": "depends only on its arguments: a signed cookie and its secret",
    "workbench/views/choices.py: _suited_analyzer": "a name, by the fingerprint of the content",
    "workbench/views/ui/words.py: catalog": "the locale files",
}
CACHES = {"cache", "lru_cache", "cache_resource", "cache_data"}


def test_caches_separately_for_each_user() -> None:
    calls: list[str] = []

    @cached(max_entries=8)
    def cached_path(key: str, _no_key: int = 0, *, more: str = "") -> Path:
        calls.append(key + more)
        return workspace() / (key + more)

    for name in (ALICE, BOB, ALICE, BOB):
        with acting_as(name):
            assert cached_path("a") == workspace() / "a"
            assert cached_path("a", 2) == workspace() / "a"  # an underscore excludes a parameter from the key
            assert cached_path("a", more="b") == workspace() / "ab"
    assert cached_path("a") == workspace() / "a"
    assert calls == ["a", "ab", "a", "ab", "a"]
    with acting_as(ALICE):
        cached_path.clear("a")
        cached_path("a")
    with acting_as(BOB):
        cached_path("a")
    assert calls == ["a", "ab", "a", "ab", "a", "a"]
    assert cached_path.__name__ == "cached_path"


def test_caches_separately_for_each_function() -> None:
    @cached()
    def first(key: str) -> str:
        return f"first {key}"

    @cached()
    def other(key: str) -> str:
        return f"other {key}"

    assert (first("a"), other("a"), first("a")) == ("first a", "other a", "first a")


def test_set_of_one_user_is_missing_for_another() -> None:
    with acting_as(ALICE):
        key = save_question_set(small_set("Alice's")).key
        assert question_set(key).name == "Alice's"
        assert audit_of(key).passage_count == 5
    for name in (BOB, ""):
        with acting_as(name):
            for ask in (question_set, audit_of):
                with pytest.raises(DataError):
                    ask(key)
            with pytest.raises(DataError):
                split_of(key, SplitOptions())
    with acting_as(BOB):
        save_question_set(small_set("Bob's"))
        assert (question_set(key).name, load(key).name) == ("Bob's", "Bob's")
    with acting_as(ALICE):
        assert question_set(key).name == "Alice's"


def uncached_functions() -> Iterator[str]:
    """Yield the functions of the pages with caches of the standard library or Streamlit."""
    for path in sorted((PROJECT / "workbench" / "views").rglob("*.py")):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        inside = {child: parent for parent in ast.walk(tree) for child in ast.iter_child_nodes(parent)}
        for node in ast.walk(tree):
            name = node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""
            if name not in CACHES:
                continue
            names: list[str] = []
            ancestor: ast.AST | None = node
            while ancestor is not None:
                if isinstance(ancestor, ast.FunctionDef | ast.ClassDef):
                    names.insert(0, ancestor.name)
                ancestor = inside.get(ancestor)
            yield f"{path.relative_to(PROJECT).as_posix()}: {'.'.join(names)}"


def test_caches_nothing_else_for_all_users() -> None:
    assert sorted(uncached_functions()) == sorted(SHARED)


def test_finds_cut_words_once_per_dictionary_without_test_questions() -> None:
    data = sample()
    shares = SplitOptions()
    progress: list[float] = []
    assert not has_cut_words(data, shares, "")
    cut = words_cut_wrongly(data, shares, "", progress.append)
    assert progress[0] == 0
    assert progress[-1] == 1
    assert progress == sorted(progress)
    assert has_cut_words(data, shares, "")
    assert words_cut_wrongly(data, shares, "", pytest.fail) is cut
    questions = question_set(data.key)
    unseen = {questions.questions[row].text for row in split(questions, shares).rows[Part.TEST]}
    assert unseen
    assert not unseen & set(cut.questions)
    mended = dictionary_store.save(Dictionary(tuple(Word(cut_word.word) for cut_word in cut.words)), "mended")
    assert not has_cut_words(data, shares, mended.reference)
    left = words_cut_wrongly(data, shares, mended.reference, progress.append)
    assert len(left.words) < len(cut.words) / 2


def test_removed_dictionary_is_missing_after_reading() -> None:
    dictionary = dictionary_store.save(Dictionary((Word("경인선"),)), "철도")
    assert dictionary_of(dictionary.reference) == Dictionary((Word("경인선"),))
    dictionary_store.remove(dictionary.key)
    with pytest.raises(DictionaryError, match="no stored dictionary"):
        dictionary_of(dictionary.reference)


def test_reports_progress_once_outside_cached_functions(tmp_path: Path) -> None:
    """Streamlit replays the elements of a cached function on every call, even if their container is gone."""
    cached: list[bool] = []
    shares: list[float] = []

    def report(share: float) -> None:
        cached.append(in_cached_function.get())
        shares.append(share)

    sides = [[SHIP, PEAR, "나는 배"], [PEAR, "사과를 먹었다", SHIP]]
    pairs = PairSet.from_columns("few", PairKind.SCORED, sides, [1, 4, 2], published=[2] * 3, scale=(0, 5))
    data = pair_store.save_pairs(pairs)
    model = write_model(tmp_path / "tiny").reference
    first, second = (scores_by_layer(model, data.key, Part.TEST, report) for _ in range(2))
    assert first is second
    assert (shares, cached) == ([0.0, 1.0], [False, False])
    folders = (tmp_path / "tiny",)
    predictions = [predict_checkpoints("tiny", folders, "[MASK]", report) for _ in range(2)]
    assert predictions[0] is predictions[1]
    write_model(tmp_path / "tiny", seed=1)
    again = predict_checkpoints("tiny", folders, "[MASK]", report)
    assert again.reference == "tiny"
    assert shares == [0.0, 1.0] * 3
