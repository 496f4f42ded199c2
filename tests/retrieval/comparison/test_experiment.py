"""Experiment files: their values, errors and earlier names, and the stability of cache keys."""

from pathlib import Path

import numpy as np
import pytest
from pydantic import ValidationError

from mrc_workbench.data.split import Part
from mrc_workbench.data.text.analyzers import Analyzer
from mrc_workbench.retrieval.combine import Fusion
from mrc_workbench.retrieval.comparison.compare import build_context
from mrc_workbench.retrieval.comparison.experiment import (
    Experiment,
    ExperimentError,
    LabKind,
    RunSpec,
    read_experiment,
    write_experiment,
)
from mrc_workbench.retrieval.comparison.first_stage import BM25Spec, DenseSpec, MilvusSpec, WindowedBM25Spec
from mrc_workbench.retrieval.comparison.multistage import HybridSpec, RerankSpec
from mrc_workbench.retrieval.comparison.spec import CachedRetriever
from mrc_workbench.retrieval.dense import IndexKind
from mrc_workbench.retrieval.lexical import BM25Engine
from mrc_workbench.retrieval.lexical.bm25 import BM25, BM25Options
from mrc_workbench.retrieval.trec import RunError
from tests.doubles import QUESTIONS, small_set, texts_of
from tests.retrieval.compared import BIGRAMS, WORDS, experiment_of

EXAMPLE = """
data = "questions.json"
split = "test"
ks = [1, 5, 10]
seed = 7

[[retriever]]
name = "BM25"
kind = "bm25"
analyzer = "kiwi"
k1 = 1.2
b = 0.75

[[retriever]]
name = "Dense"
kind = "dense"
model = "starter"

[[retriever]]
name = "Hybrid"
kind = "hybrid"
retrievers = ["BM25", "Dense"]

[[retriever]]
name = "Reranked"
kind = "rerank"
first_stage = "Hybrid"
rerank_top_k = 30
weight = 0.25
"""


def read(text: str, folder: Path) -> Experiment:
    path = folder / "experiment.toml"
    path.write_text(text, encoding="utf-8")
    return read_experiment(path)


def test_reads_every_kind_of_retriever(tmp_path: Path) -> None:
    specs = (
        BM25Spec(name="BM25", analyzer=Analyzer.KIWI, k1=1.2, b=0.75, title=True, engine=BM25Engine.POSTINGS),
        DenseSpec(name="Dense", model="starter", title=True),
        HybridSpec(name="Hybrid", retrievers=("BM25", "Dense"), top_k=100),
        RerankSpec(name="Reranked", first_stage="Hybrid", model="starter", rerank_top_k=30, weight=0.25, title=True),
    )
    shares = {"validation_fraction": 0.1, "test_fraction": 0.2}
    expected = Experiment(data="questions.json", split="test", seed=7, ks=(1, 5, 10), retriever=specs, **shares)
    assert read(EXAMPLE, tmp_path) == read("\ufeff" + EXAMPLE, tmp_path) == expected  # with a byte order mark, too


def test_fills_in_defaults(tmp_path: Path) -> None:
    experiment = read('data = "sample"\n[[retriever]]\nname = "a"\nkind = "bm25"', tmp_path)
    assert (experiment.split, experiment.seed, experiment.ks) == ("all", 0, (1, 5, 10, 20, 50, 100))
    assert experiment.retriever == (BM25Spec(name="a", analyzer=Analyzer.AUTO, k1=0.9, b=0.4),)
    plain = read('data = "sample"\n[[retriever]]\nname = "a"\nkind = "dense"', tmp_path)
    assert (plain.lab, plain.retriever[0]) == (None, DenseSpec(name="a", index=IndexKind.EXACT, selected_on=None))
    hybrid = HybridSpec(name="h", retrievers=("a", "b"))
    assert (hybrid.fusion, hybrid.weights) == (Fusion.Z_SCORE, None)


def test_round_trips_written_experiment(tmp_path: Path) -> None:
    experiment = read(EXAMPLE, tmp_path)
    assert read(write_experiment(experiment), tmp_path) == experiment
    specs = (*experiment.retriever[:3], RerankSpec(name="한", first_stage="BM25"))
    unweighted = experiment.model_copy(update={"retriever": specs})
    assert read(write_experiment(unweighted), tmp_path) == unweighted
    remarked = write_experiment(experiment, ["one", 'two\nlines\r and "more"\x00'])
    assert remarked.splitlines()[:2] == ["# one", '# two lines and "more"']
    assert read(remarked, tmp_path) == experiment
    assert "relevance_level" not in write_experiment(experiment), "stored comparisons stay found by their experiment"
    higher = experiment.model_copy(update={"relevance_level": 2})
    assert read(write_experiment(higher), tmp_path) == higher


TUNED = """
data = "sample"
split = "validation"
lab = "hybrid"

[[retriever]]
name = "theirs"
kind = "run"
path = "their runs/lucene.trec"

[[retriever]]
name = "dense"
kind = "dense"
index = "hnsw"

[[retriever]]
name = "both"
kind = "hybrid"
retrievers = ["theirs", "dense"]
fusion = "z-score"
weights = [0.25, 1]
selected_on = "validation"
"""


def test_reads_fusions_indexes_runs_labs_and_tuning_part(tmp_path: Path) -> None:
    experiment = read(TUNED, tmp_path)
    assert (experiment.lab, experiment.split) == (LabKind.HYBRID, Part.VALIDATION)
    assert experiment.retriever == (
        RunSpec(name="theirs", path="their runs/lucene.trec"),
        DenseSpec(name="dense", index=IndexKind.HNSW),
        HybridSpec(name="both", retrievers=("theirs", "dense"), weights=(0.25, 1.0), selected_on=Part.VALIDATION),
    )
    assert dict(experiment.retriever[2])["fusion"] is Fusion.Z_SCORE
    assert read(write_experiment(experiment), tmp_path) == experiment


MISTAKES = {
    EXAMPLE: [
        ('data = "questions.json"', "", "data: Field required"),
        ('data = "questions.json"', "data = 7", "data: Input should be a valid string"),
        ('split = "test"', 'split = "half"', "split: Input should be 'all', 'train', 'validation' or 'test'"),
        ("ks = [1, 5, 10]", "ks = []", "ks: Tuple should have at least 1 item"),
        ("ks = [1, 5, 10]", "ks = [1, 0]", "ks.1: Input should be greater than 0"),
        ("ks = [1, 5, 10]", 'ks = ["ten"]', "ks.0: Input should be a valid integer"),
        ("seed = 7", "sead = 7", "sead: unknown field; did you mean 'seed'?"),
        ("seed = 7", "test_fraction = 0.95", "file: validation and test must each be a fraction"),
        ("seed = 7", "relevance_level = 0", "relevance_level: Input should be greater than or equal to 1"),
        ("seed = 7", "test_fraction = -0.1", "file: validation and test must each be a fraction"),
        ('kind = "bm25"', "", "retriever.0: Unable to extract tag using discriminator 'kind'"),
        ('kind = "bm25"', 'kind = "bm26"', "retriever.0: no kind of retriever is called 'bm26'; did you mean 'bm25'"),
        ('analyzer = "kiwi"', 'analyzer = "mecab"', "retriever.0.bm25.analyzer: Input should be 'auto', 'whitespace'"),
        ("k1 = 1.2", "k1 = -1", "retriever.0.bm25.k1: Input should be greater than or equal to 0"),
        ("k1 = 1.2", "k1 = nan", "retriever.0.bm25.k1: Input should be"),
        ("b = 0.75", "b = 1.5", "retriever.0.bm25.b: Input should be less than or equal to 1"),
        ("b = 0.75", 'engine = "lucene"', "retriever.0.bm25.engine: Input should be 'postings' or 'rank-bm25'"),
        ("b = 0.75", "c = 1", "retriever.0.bm25.c: unknown field; known fields: analyzer, b,"),
        ('name = "BM25"', 'name = ""', "retriever.0.bm25.name: String should have at least 1 character"),
        ('name = "BM25"\n', "", "retriever.0.bm25.name: Field required"),
        ('name = "Dense"', 'name = "BM25"', "two retrievers are named 'BM25'"),
        ('["BM25", "Dense"]', '["BM25"]', "retriever.2.hybrid.retrievers: Tuple should have at least 2 items"),
        ('["BM25", "Dense"]', '["BM25", "Sparse"]', "'Hybrid' uses ['Sparse'], which must be listed before"),
        ('["BM25", "Dense"]', '["BM25", "Reranked"]', "'Hybrid' uses ['Reranked'], which must be listed"),
        ('"Hybrid"\nrerank_top_k', '"Reranked"\nrerank_top_k', "'Reranked' uses ['Reranked'], which must be listed"),
        ('first_stage = "Hybrid"', "", "retriever.3.rerank.first_stage: Field required"),
        ("rerank_top_k = 30", "rerank_top_k = 0", "retriever.3.rerank.rerank_top_k: Input should be greater than 0"),
        ("weight = 0.25", "weight = 1.01", "retriever.3.rerank.weight: Input should be less than or equal to 1"),
        ("data =", "data", "cannot be read as an experiment file (TOML)"),
    ],
    TUNED: [
        ('"hybrid"', '"fusion"', "lab: Input should be 'bm25', 'lexical', 'hybrid', 'rerank', 'index' or 'layers'"),
        ('"hnsw"', '"pq"', "retriever.1.dense.index: Input should be 'exact', 'hnsw', 'ivf' or 'int8'"),
        ('"z-score"', '"sum"', "retriever.2.hybrid.fusion: Input should be 'rrf', 'min-max' or 'z-score'"),
        ("[0.25, 1]", "[0.25]", "weights must be 2 numbers, one for each of `retrievers`"),
        ("[0.25, 1]", "[0.25, 1, 1]", "weights must be 2 numbers"),
        ("[0.25, 1]", "[0, 0.0]", "weights must be 2 numbers"),
        ("[0.25, 1]", "[0.25, -1]", "retriever.2.hybrid.weights.1: Input should be greater than or equal to 0"),
        ("[0.25, 1]", "[0.25, inf]", "retriever.2.hybrid.weights.1: Input should be less than or equal to 1000000"),
        ("[0.25, 1]", "[0.25, nan]", "retriever.2.hybrid.weights.1: Input should be"),
        ('selected_on = "validation"', 'selected_on = "dev"', "retriever.2.hybrid.selected_on: Input should be 'all'"),
        ('path = "their runs/lucene.trec"', "", "retriever.0.run.path: Field required"),
        ('"their runs/lucene.trec"', '""', "retriever.0.run.path: String should have at least 1 character"),
    ],
}


CASES = [(text, *mistake) for text, mistakes in MISTAKES.items() for mistake in mistakes]


@pytest.mark.parametrize(("text", "old", "new", "location"), CASES)
def test_reports_location_of_each_error(text: str, old: str, new: str, location: str, tmp_path: Path) -> None:
    assert old in text
    with pytest.raises(ExperimentError) as caught:
        read(text.replace(old, new, 1), tmp_path)
    assert str(caught.value).startswith("experiment.toml")
    assert location in str(caught.value)


def test_reports_all_errors_at_once(tmp_path: Path) -> None:
    with pytest.raises(ExperimentError, match=r"split: .*; seed: .*; retriever.0.bm25.k1: "):
        read(EXAMPLE.replace("test", "half").replace("seed = 7", 'seed = "x"').replace("1.2", "-1"), tmp_path)
    for text in ('data = "sample"', 'data = "sample"\nretriever = []'):
        with pytest.raises(ExperimentError, match="retriever: "):
            read(text, tmp_path)


@pytest.mark.parametrize("content", [b"\xff\xfe", b"[[[", b"\x00", b'data = "a"\ndata = "b"'])
def test_rejects_invalid_toml(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "experiment.toml").write_bytes(content)
    with pytest.raises(ExperimentError, match=r"experiment\.toml cannot be read as an experiment file \(TOML\)"):
        read_experiment(tmp_path / "experiment.toml")


def test_cache_key_depends_on_everything_but_name() -> None:
    rerank = {"name": "r", "kind": "rerank", "first_stage": "bigrams"}

    def key(*specs: dict[str, object]) -> str:
        return [*build_context(experiment_of(*specs), small_set()).retrievers.values()][-1].key

    assert key(BIGRAMS) == key(BIGRAMS | {"name": "other"}) == key(BIGRAMS | {"selected_on": "validation"})
    assert key(BIGRAMS, rerank) == key(BIGRAMS | {"name": "other"}, rerank | {"first_stage": "other", "name": "second"})
    hybrid = {"name": "h", "kind": "hybrid", "retrievers": ["bigrams", "words"]}
    dense = {"name": "d", "kind": "dense"}
    bm25s = [{}, {"k1": 1.0}, {"b": 0.5}, {"title": False}, {"engine": "rank-bm25"}, {"analyzer": "word"}]
    denses = [{}, {"title": False}, {"index": "hnsw"}, {"index": "int8"}]
    reranks = [{}, {"rerank_top_k": 5}, {"weight": 0.3}, {"weight": 0.4}]
    hybrids = [{}, {"top_k": 5}, {"fusion": "min-max"}, {"fusion": "rrf"}, {"fusion": "z-score", "weights": [1, 2]}]
    different: list[tuple[dict[str, object], ...]] = [
        *((BIGRAMS | values,) for values in bm25s),
        *((dense | values,) for values in denses),
        *((BIGRAMS, rerank | values) for values in reranks),
        (BIGRAMS | {"k1": 1.0}, rerank),
        *((BIGRAMS, WORDS, hybrid | values) for values in hybrids),
        (BIGRAMS, WORDS | {"b": 0.5}, hybrid),
    ]
    assert len({key(*specs) for specs in different}) == len(different)


def test_searches_as_deep_as_wrappers_need() -> None:
    hybrid = {"name": "hybrid", "kind": "hybrid", "retrievers": ["bigrams", "words"], "top_k": 30}
    near = {"name": "near", "kind": "rerank", "first_stage": "hybrid", "rerank_top_k": 5}
    far = {"name": "far", "kind": "rerank", "first_stage": "hybrid", "rerank_top_k": 200}
    over = {"name": "over", "kind": "rerank", "first_stage": "far", "rerank_top_k": 300}
    experiment = experiment_of(BIGRAMS, WORDS, hybrid, near, ks=[1, 20])
    assert experiment.depths == {"bigrams": 30, "words": 30, "hybrid": 20, "near": 20}
    # a hybrid reads 30 passages; `far` keeps the order of its first stage below rank 200
    depths = {"bigrams": 30, "words": 30, "hybrid": 300, "near": 10, "far": 300, "over": 10}
    assert experiment_of(BIGRAMS, WORDS, hybrid, near, far, over, ks=[1]).depths == depths


def test_shares_model_between_retrievers() -> None:
    dense = {"kind": "dense", "model": "starter"}
    specs = [dense | {"name": index, "index": index} for index in IndexKind] + [dense | {"name": "t", "title": False}]
    retrievers = build_context(experiment_of(*specs), small_set()).retrievers.values()
    *same, other = (retriever.meter for retriever in retrievers if isinstance(retriever, CachedRetriever))
    assert [retriever is same[0] for retriever in (*same, other)] == [True] * len(IndexKind) + [False]


def test_missing_run_fails_its_wrappers_and_changed_run_gets_new_key(tmp_path: Path) -> None:
    run = {"name": "run", "kind": "run", "path": "r.trec"}
    experiment = experiment_of(BIGRAMS, run, {"name": "h", "kind": "hybrid", "retrievers": ["bigrams", "run"]})
    retrievers = build_context(experiment, small_set(), tmp_path).retrievers.values()
    assert [type(retriever) for retriever in retrievers] == [CachedRetriever, RunError, RunError]

    def keys() -> list[str]:
        return [retriever.key for retriever in build_context(experiment, small_set(), tmp_path).retrievers.values()]

    (tmp_path / "r.trec").write_text("q1 Q0 p1 1 1 x\n")
    bm25, first, hybrid = keys()
    assert keys() == [bm25, first, hybrid]
    (tmp_path / "r.trec").write_text("q1 Q0 p1 1 12 x\n")
    assert not {first, hybrid} & set(keys())


BM25_ALONE = 'data = "d"\n{top}\n[[retriever]]\nname = "a"\nkind = "bm25"\n{own}\n'
OTHER = '[[retriever]]\nname = "b"\n'


@pytest.mark.parametrize(
    ("top", "location"),
    [
        *((f"{part}_fraction = nan", "a fraction of 0 or more") for part in ("validation", "test")),
        *((f"test_fraction = {share}", "a fraction of 0 or more") for share in ("inf", "-0.1")),
        ("seed = -1", "the seed must be 0 or more, not -1"),
        ("ks = [2147483648]", "ks.0"),
        (f"ks = [{2**63}]", "ks.0"),
        (f"ks = [1{'0' * 400}]", "ks.0"),
        ("x = " + "[" * 5000 + "]" * 5000, "nested too deeply"),
    ],
)
def test_rejects_impossible_values_with_location(top: str, location: str, tmp_path: Path) -> None:
    with pytest.raises(ExperimentError, match=location):
        read(BM25_ALONE.format(top=top, own=""), tmp_path)


@pytest.mark.parametrize(
    "own",
    [
        *("title_weight = 1e308", "title_weight = inf", "title_weight = nan", "title_weight = -1.0"),
        *("k1 = 1e308", "k1 = inf", "k1 = nan", "b = nan", "b = inf"),
        *("fb_docs = 2147483648", f"fb_docs = {2**64}", "fb_docs = -1"),
        *("fb_docs = 3\nfb_weight = nan", f"fb_docs = 3\nfb_terms = {2**63}"),
        OTHER + 'kind = "hybrid"\nretrievers = ["a", "a"]\nweights = [1e308, 1e308]',
        OTHER + 'kind = "hybrid"\nretrievers = ["a", "a"]\nweights = [nan, 1]',
        OTHER + 'kind = "hybrid"\nretrievers = ["a", "a"]\ntop_k = 2147483648',
        OTHER + 'kind = "rerank"\nfirst_stage = "a"\nweight = nan',
        OTHER + 'kind = "rerank"\nfirst_stage = "a"\nrerank_top_k = 9223372036854775808',
        OTHER + 'kind = "milvus"\nk1 = inf',
        OTHER + 'kind = "bm25-windows"\nsentences = 2147483648',
        OTHER + 'kind = "dense"\nwindows = true\nwindow_tokens = 2147483648',
    ],
)
def test_rejects_options_that_overflow_scores(own: str, tmp_path: Path) -> None:
    name = own.splitlines()[-1].split()[0]
    with pytest.raises(ExperimentError, match=rf"retriever.*{name}"):
        read(BM25_ALONE.format(top="", own=own), tmp_path)


@pytest.mark.parametrize("own", ["title_weight = 1e6", "title_weight = 1e-300", "k1 = 1e6", "k1 = 0.0"])
def test_extreme_options_give_finite_scores(own: str, tmp_path: Path) -> None:
    spec = read(BM25_ALONE.format(top="", own=own), tmp_path).retriever[0]
    assert isinstance(spec, BM25Spec)
    rankings = BM25("a", small_set().passages, spec.options()).search(texts_of(QUESTIONS), 3)
    default_rankings = BM25("a", small_set().passages, BM25Options()).search(texts_of(QUESTIONS), 3)
    assert np.isfinite(rankings.scores[rankings.indices >= 0]).all()
    np.testing.assert_array_equal((rankings.indices >= 0).sum(axis=1), (default_rankings.indices >= 0).sum(axis=1))


def test_limits_depth_to_number_of_passages(tmp_path: Path) -> None:
    rankings = []
    for passages in (10**9, len(small_set().passages)):
        experiment = read(BM25_ALONE.format(top=f"ks = [{passages}]", own=f"fb_docs = {passages}"), tmp_path)
        spec = experiment.retriever[0]
        assert isinstance(spec, BM25Spec)
        bm25 = BM25("a", small_set().passages, spec.options())
        rankings.append(bm25.search(texts_of(QUESTIONS), max(experiment.ks)).indices.tolist())
    assert rankings[0] == rankings[1]


BEFORE = {"name", "selected_on", "kind", "analyzer", "k1", "b", "title"}


def test_cache_key_ignores_unused_options() -> None:
    assert set(BM25Spec(name="BM25").model_dump(mode="json")) == BEFORE | {"engine"}
    assert set(WindowedBM25Spec(name="BM25").model_dump(mode="json")) == BEFORE | {"sentences"}
    with_feedback = BM25Spec(name="BM25", fb_docs=5, fb_terms=10, fb_weight=0.5)
    assert set(with_feedback.model_dump(mode="json")) == BEFORE | {"engine", "fb_docs"}


def test_passes_options_to_bm25() -> None:
    values = {"k1": 1.2, "title_weight": 3.0, "fb_docs": 4, "fb_terms": 20, "fb_weight": 0.2}
    spec = BM25Spec(name="BM25", **values)  # type: ignore[arg-type]
    assert spec.options() == BM25Options(**values)  # type: ignore[arg-type]
    assert spec.model_validate_json(spec.model_dump_json()) == spec
    assert WindowedBM25Spec(name="W", title_weight=3).options() == BM25Options(title_weight=3)


@pytest.mark.parametrize(
    "values",
    [
        *({"title_weight": weight} for weight in (0, -1, float("inf"), float("nan"))),
        *({"title_weight": 2} | more for more in ({"title": False}, {"engine": "rank-bm25"})),
        *({"fb_docs": -1}, {"fb_weight": 0.2}, {"fb_terms": 5}),
        {"fb_docs": 3, "engine": "rank-bm25"},
        {"fb_docs": 3, "fb_terms": 0},
        {"fb_docs": 3, "fb_weight": 1.5},
    ],
)
def test_rejects_conflicting_options(values: dict[str, object]) -> None:
    with pytest.raises(ValidationError, match=r"title_weight|fb_|feedback"):
        Experiment.model_validate({"data": "sample", "retriever": [{"name": "BM25", "kind": "bm25", **values}]})


def test_windows_and_milvus_reject_feedback() -> None:
    for kind in (WindowedBM25Spec, MilvusSpec):
        with pytest.raises(ValidationError, match="fb_docs"):
            kind.model_validate({"name": "one", "fb_docs": 3})


def test_maps_legacy_engine_to_equivalent() -> None:
    assert BM25Spec.model_validate({"name": "BM25", "engine": "bm25s"}) == BM25Spec(name="BM25")


FEEDBACK = {"fb_docs": 3, "fb_terms": 5, "fb_weight": 0.2}
EARLIER = {  # the earlier names of fields, and the current ones
    "bm25": ("feedback_passages = 3\nfeedback_terms = 5\nfeedback_share = 0.2", FEEDBACK),
    "hybrid": ('of = ["a", "a"]\ndepth = 30', {"retrievers": ("a", "a"), "top_k": 30}),
    "learned": ('of = ["a"]\ndepth = 9\nlessons = 5', {"retrievers": ("a",), "top_k": 9, "max_training_queries": 5}),
    "rerank": ('first = "a"\ndepth = 30', {"first_stage": "a", "rerank_top_k": 30}),
    "late": ('model = "m"\nfirst = "a"\ndepth = 30', {"first_stage": "a", "rerank_top_k": 30}),
    "milvus": ("depth = 30", {"top_k": 30}),
}


@pytest.mark.parametrize("kind", EARLIER)
def test_reads_earlier_field_names(kind: str, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    earlier, current = EARLIER[kind]
    top = "validation_share = 0.2\ntest_share = 0.3\nrelevant_from = 2"
    text = BM25_ALONE.format(top=top, own=OTHER + f'kind = "{kind}"\nchosen_on = "test"\n{earlier}')
    experiment = read(text, tmp_path)
    assert (experiment.validation_fraction, experiment.test_fraction, experiment.relevance_level) == (0.2, 0.3, 2)
    values = dict(experiment.retriever[1])
    assert values["selected_on"] is Part.TEST
    assert {name: values[name] for name in current} == current
    names = [line.split(" =")[0] for line in (*top.split("\n"), earlier.split("\n")[-1])]
    assert all(f"{name!r} is now" in caplog.text for name in names)
    assert experiment.model_dump(by_alias=True)["test_share"] == 0.3, "keys of stored results keep the earlier names"
