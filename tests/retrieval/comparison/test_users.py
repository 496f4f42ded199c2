"""Kept comparisons and added retrievers of signed-in users: each their own."""

from pathlib import Path

import pytest

from data.workspace import LimitError, acting_as, shared_workspace, user_of, workspace
from retrieval.comparison.compare import compare
from retrieval.comparison.experiment import Experiment, add, add_run, added
from retrieval.comparison.first_stage import BM25Spec
from retrieval.comparison.store import ComparisonJob, delete, keep, kept_comparisons, rename
from tests.doubles import small_set

ALICE, BOB = user_of("https://id.example.org", "alice"), user_of("https://id.example.org", "bob")
EXPERIMENT = Experiment(data="small", retriever=(BM25Spec(name="BM25"),))
FINGERPRINT = small_set().fingerprint


@pytest.fixture
def key() -> str:
    """The key of a comparison that Alice keeps."""
    with acting_as(ALICE):
        job = ComparisonJob.of(EXPERIMENT, FINGERPRINT)
        keep(compare(EXPERIMENT, small_set()), job.folder)
        return job.id


def files(place: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in sorted(place.rglob("*")) if path.is_file()}


def test_nobody_else_sees_renames_or_deletes_it(key: str) -> None:
    with acting_as(ALICE):
        before = files(workspace())
    for name in (BOB, ""):
        with acting_as(name):
            assert kept_comparisons() == []
            for wanted in (key, f"../../{ALICE}/comparisons/{key}", f"../users/{ALICE}/comparisons/{key}"):
                with pytest.raises(KeyError):
                    delete(wanted)
                with pytest.raises(KeyError):
                    rename(wanted, "mine")
            assert not ComparisonJob.of(EXPERIMENT, FINGERPRINT).done  # the same one, asked for by somebody else
    with acting_as(ALICE):
        assert files(workspace()) == before
        assert [kept.key for kept in kept_comparisons()] == [key]


def test_what_is_found_for_one_is_searched_anew_for_another(key: str) -> None:
    with acting_as(BOB):
        compare(EXPERIMENT, small_set())
        assert list((workspace() / "cache" / "rankings").iterdir())
    assert not (shared_workspace() / "cache").exists()


def test_added_retrievers_are_each_users() -> None:
    with acting_as(ALICE):
        add(FINGERPRINT, BM25Spec(name="mine"))
        assert [spec.name for spec in added(FINGERPRINT)] == ["mine"]
    for name in (BOB, ""):
        with acting_as(name):
            assert added(FINGERPRINT) == []


def test_a_run_that_finds_no_room_is_not_added(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MRC_USER_MEGABYTES", "1")
    run = b"q1 Q0 p1 1 2.5 made\n"
    with acting_as(ALICE):
        workspace().mkdir(parents=True)
        (workspace() / "large").write_bytes(b"x" * 1_000_000)
        with pytest.raises(LimitError):
            add_run(small_set(), "found", run, "found.trec")
        assert added(FINGERPRINT) == []
        assert not list(workspace().rglob("*.trec"))
        (workspace() / "large").unlink()
        add_run(small_set(), "found", run, "found.trec")
        assert [spec.name for spec in added(FINGERPRINT)] == ["found"]
