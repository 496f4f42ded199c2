"""Retrievers that a person added, and what each signed-in user keeps."""

from pathlib import Path

import pytest

from mrc_workbench.data.split import Part
from mrc_workbench.data.workspace import LimitError, acting_as, shared_workspace, user_of, workspace
from mrc_workbench.retrieval.comparison.compare import compare
from mrc_workbench.retrieval.comparison.experiment import Experiment, RunSpec, add, add_run, added, remove
from mrc_workbench.retrieval.comparison.first_stage import BM25Spec, DenseSpec
from mrc_workbench.retrieval.comparison.multistage import HybridSpec
from mrc_workbench.retrieval.comparison.store import ComparisonJob, delete, keep, kept_comparisons, rename
from mrc_workbench.retrieval.trec import RunError
from tests.doubles import small_set

SET = small_set()
OTHER = "0" * 64
RUN = "q1 Q0 p1 1 9.5 mine\nq2 Q0 p3 1 7 mine\nq2 Q0 p2 2 6 mine\n"


def names(fingerprint: str = SET.fingerprint) -> list[str]:
    return [spec.name for spec in added(fingerprint)]


def files() -> list[Path]:
    return sorted(path for path in (workspace() / "added").rglob("*") if path.is_file())


def test_what_is_added_is_read_again_in_order_and_belongs_to_its_set() -> None:
    tuned = BM25Spec(name="BM25 · <b>../..</b>", k1=0.3, chosen_on=Part.VALIDATION)
    mixed = HybridSpec(name="혼합", of=("BM25", tuned.name), weights=(0.25, 0.75))
    for spec in (tuned, mixed):
        add(SET.fingerprint, spec)
    assert added(SET.fingerprint) == [tuned, mixed]
    assert added(OTHER) == []
    assert all(workspace() in path.resolve().parents for path in files())
    again = tuned.model_copy(update={"k1": 2.0})  # replaces the one of the same name
    add(SET.fingerprint, again)
    assert added(SET.fingerprint) == [again, mixed]


def test_removing_takes_what_wraps_it_along() -> None:
    hybrids = HybridSpec(name="c", of=("a", "b")), HybridSpec(name="d", of=("c", "b"))
    for spec in (BM25Spec(name="a"), DenseSpec(name="b"), *hybrids):
        add(SET.fingerprint, spec)
    add(OTHER, BM25Spec(name="a"))
    remove(SET.fingerprint, "a")
    assert names() == ["b"]
    assert names(OTHER) == ["a"]
    remove(SET.fingerprint, "not there")
    assert names() == ["b"]


@pytest.mark.parametrize("content", ["", "{", '{"retriever": {"kind": "bm25", "name": "x", "k1": -1}}', "[]", "\0"])
def test_a_file_that_cannot_be_read_is_left_out(content: str) -> None:
    add(SET.fingerprint, BM25Spec(name="good"))
    (files()[0].parent / "torn.json").write_text(content)
    assert names() == ["good"]


def test_a_run_is_copied_under_a_name_of_its_own_and_can_be_compared() -> None:
    add_run(SET, "Run · mine", RUN.encode(), "../../mine.trec")
    (spec,) = added(SET.fingerprint)
    assert isinstance(spec, RunSpec)
    assert Path(spec.path).is_absolute()
    assert Path(spec.path).read_text() == RUN
    assert workspace() / "added" in Path(spec.path).parents
    assert "mine" not in spec.path.removeprefix(str(workspace()))
    found = compare(Experiment(data="small", ks=(1,), retriever=(spec,)), SET).results[0]
    assert found.scores is not None
    assert found.scores.per_question["hit@1"].tolist() == [1, 0, 0, 0, 0, 0]


def test_a_run_goes_with_the_last_retriever_that_uses_it() -> None:
    add_run(SET, "one", RUN.encode(), "a")
    time = next(path for path in files() if path.suffix == ".trec").stat().st_mtime_ns
    add_run(SET, "two", RUN.encode(), "b")
    assert [path.stat().st_mtime_ns for path in files() if path.suffix == ".trec"] == [time]  # its rankings stay kept
    remove(SET.fingerprint, "one")
    assert len([path for path in files() if path.suffix == ".trec"]) == 1
    remove(SET.fingerprint, "two")
    assert files() == []


@pytest.mark.parametrize(
    ("content", "code", "line"),
    [
        (b"q1 Q0 p1 1 9 a\nq1 Q0 p2 2 high a\n", "run_broken_line", 2),
        (b"q1 p1 9\n", "run_broken_line", 1),
        (b"", "run_unreadable", 0),
        (b"\xff\xfe\x00", "run_unreadable", 0),
        (b"x Q0 y 1 9 a\n", "run_other_ids", 0),
    ],
)
def test_a_bad_run_is_told_with_its_line_and_adds_nothing(content: bytes, code: str, line: int) -> None:
    with pytest.raises(RunError) as caught:
        add_run(SET, "bad", content, "results.txt")
    assert (caught.value.code, caught.value.details["line"]) == (code, line)
    assert "results.txt" in str(caught.value)
    assert files() == []


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


def files_in(place: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in sorted(place.rglob("*")) if path.is_file()}


def test_nobody_else_sees_renames_or_deletes_it(key: str) -> None:
    with acting_as(ALICE):
        before = files_in(workspace())
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
        assert files_in(workspace()) == before
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
