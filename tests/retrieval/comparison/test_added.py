"""Retrievers that a person added, and what each signed-in user keeps."""

from pathlib import Path

import pytest

from mrc_workbench.data.split import Part
from mrc_workbench.data.workspace import LimitError, acting_as, shared_workspace, user_of, workspace
from mrc_workbench.retrieval.comparison import experiment as experiments
from mrc_workbench.retrieval.comparison.compare import compare
from mrc_workbench.retrieval.comparison.first_stage import BM25Spec, DenseSpec
from mrc_workbench.retrieval.comparison.multistage import HybridSpec
from mrc_workbench.retrieval.comparison.store import ComparisonJob, delete, list_comparisons, rename, save_comparison
from mrc_workbench.retrieval.trec import RunError
from tests.doubles import small_set

SET = small_set()
OTHER = "0" * 64
RUN = "q1 Q0 p1 1 9.5 mine\nq2 Q0 p3 1 7 mine\nq2 Q0 p2 2 6 mine\n"


def names(fingerprint: str = SET.fingerprint) -> list[str]:
    return [spec.name for spec in experiments.added_retrievers(fingerprint)]


def files() -> list[Path]:
    return sorted(path for path in (workspace() / "added").rglob("*") if path.is_file())


def test_returns_added_retrievers_in_order_for_their_dataset() -> None:
    tuned = BM25Spec(name="BM25 · <b>../..</b>", k1=0.3, selected_on=Part.VALIDATION)
    mixed = HybridSpec(name="혼합", retrievers=("BM25", tuned.name), weights=(0.25, 0.75))
    for spec in (tuned, mixed):
        experiments.add_retriever(SET.fingerprint, spec)
    assert experiments.added_retrievers(SET.fingerprint) == [tuned, mixed]
    assert experiments.added_retrievers(OTHER) == []
    assert all(workspace() in path.resolve().parents for path in files())
    again = tuned.model_copy(update={"k1": 2.0})  # replaces the one of the same name
    experiments.add_retriever(SET.fingerprint, again)
    assert experiments.added_retrievers(SET.fingerprint) == [again, mixed]


def test_remove_deletes_dependent_retrievers() -> None:
    hybrids = HybridSpec(name="c", retrievers=("a", "b")), HybridSpec(name="d", retrievers=("c", "b"))
    for spec in (BM25Spec(name="a"), DenseSpec(name="b"), *hybrids):
        experiments.add_retriever(SET.fingerprint, spec)
    experiments.add_retriever(OTHER, BM25Spec(name="a"))
    experiments.remove_retriever(SET.fingerprint, "a")
    assert names() == ["b"]
    assert names(OTHER) == ["a"]
    experiments.remove_retriever(SET.fingerprint, "not there")
    assert names() == ["b"]


@pytest.mark.parametrize("content", ["", "{", '{"retriever": {"kind": "bm25", "name": "x", "k1": -1}}', "[]", "\0"])
def test_skips_unreadable_files(content: str) -> None:
    experiments.add_retriever(SET.fingerprint, BM25Spec(name="good"))
    (files()[0].parent / "torn.json").write_text(content)
    assert names() == ["good"]


def test_copies_and_compares_added_run() -> None:
    experiments.add_run(SET, "Run · mine", RUN.encode(), "../../mine.trec")
    (spec,) = experiments.added_retrievers(SET.fingerprint)
    assert isinstance(spec, experiments.RunSpec)
    assert Path(spec.path).is_absolute()
    assert Path(spec.path).read_text() == RUN
    assert workspace() / "added" in Path(spec.path).parents
    assert "mine" not in spec.path.removeprefix(str(workspace()))
    result = compare(experiments.Experiment(data="small", ks=(1,), retriever=(spec,)), SET).results[0]
    assert result.scores is not None
    assert result.scores.per_question["hit@1"].tolist() == [1, 0, 0, 0, 0, 0]


def test_deletes_run_with_its_last_retriever() -> None:
    experiments.add_run(SET, "one", RUN.encode(), "a")
    time = next(path for path in files() if path.suffix == ".trec").stat().st_mtime_ns
    experiments.add_run(SET, "two", RUN.encode(), "b")
    assert [path.stat().st_mtime_ns for path in files() if path.suffix == ".trec"] == [time]  # its rankings stay kept
    experiments.remove_retriever(SET.fingerprint, "one")
    assert len([path for path in files() if path.suffix == ".trec"]) == 1
    experiments.remove_retriever(SET.fingerprint, "two")
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
def test_rejects_invalid_run_and_reports_its_line(content: bytes, code: str, line: int) -> None:
    with pytest.raises(RunError) as caught:
        experiments.add_run(SET, "bad", content, "results.txt")
    assert (caught.value.code, caught.value.details["line"]) == (code, line)
    assert "results.txt" in str(caught.value)
    assert files() == []


ALICE = user_of("https://id.example.org", "alice")
BOB = user_of("https://id.example.org", "bob")
EXPERIMENT = experiments.Experiment(data="small", retriever=(BM25Spec(name="BM25"),))


@pytest.fixture
def key() -> str:
    """The key of a comparison that Alice keeps."""
    with acting_as(ALICE):
        job = ComparisonJob.of(EXPERIMENT, SET.fingerprint)
        save_comparison(compare(EXPERIMENT, small_set()), job.folder)
        return job.id


def files_in(folder: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def test_hides_comparison_from_other_users(key: str) -> None:
    with acting_as(ALICE):
        before = files_in(workspace())
    for name in (BOB, ""):
        with acting_as(name):
            assert list_comparisons() == []
            for reference in (key, f"../../{ALICE}/comparisons/{key}", f"../users/{ALICE}/comparisons/{key}"):
                with pytest.raises(KeyError):
                    delete(reference)
                with pytest.raises(KeyError):
                    rename(reference, "mine")
            assert not ComparisonJob.of(EXPERIMENT, SET.fingerprint).done  # another user's job of the same experiment
    with acting_as(ALICE):
        assert files_in(workspace()) == before
        assert [comparison.key for comparison in list_comparisons()] == [key]


def test_does_not_share_rankings_between_users(key: str) -> None:
    with acting_as(BOB):
        compare(EXPERIMENT, small_set())
        assert list((workspace() / "cache" / "rankings").iterdir())
    assert not (shared_workspace() / "cache").exists()


def test_stores_added_retrievers_per_user() -> None:
    with acting_as(ALICE):
        experiments.add_retriever(SET.fingerprint, BM25Spec(name="mine"))
        assert [spec.name for spec in experiments.added_retrievers(SET.fingerprint)] == ["mine"]
    for name in (BOB, ""):
        with acting_as(name):
            assert experiments.added_retrievers(SET.fingerprint) == []


def test_does_not_add_run_without_disk_space(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MRC_USER_MEGABYTES", "1")
    run = b"q1 Q0 p1 1 2.5 made\n"
    with acting_as(ALICE):
        workspace().mkdir(parents=True)
        (workspace() / "large").write_bytes(b"x" * 1_000_000)
        with pytest.raises(LimitError):
            experiments.add_run(small_set(), "found", run, "found.trec")
        assert experiments.added_retrievers(SET.fingerprint) == []
        assert not list(workspace().rglob("*.trec"))
        (workspace() / "large").unlink()
        experiments.add_run(small_set(), "found", run, "found.trec")
        assert [spec.name for spec in experiments.added_retrievers(SET.fingerprint)] == ["found"]
