"""Labs: their variants, results that are recomputed by hand or another method, and cross-fitted selection."""

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd
import pytest

from mrc_workbench.data.records import QuestionSet
from mrc_workbench.data.split import Part
from mrc_workbench.data.split.partition import FOLDS, TrainingQueries
from mrc_workbench.data.text.analyzers import Analyzer
from mrc_workbench.retrieval.analysis import labs
from mrc_workbench.retrieval.analysis.labs import CrossFit, cross_fit
from mrc_workbench.retrieval.combine import Fusion
from mrc_workbench.retrieval.comparison.compare import Comparison, Result, compare
from mrc_workbench.retrieval.comparison.experiment import Experiment, LabKind
from mrc_workbench.retrieval.comparison.first_stage import BM25Spec, DenseSpec, LateSpec, WindowedBM25Spec
from mrc_workbench.retrieval.comparison.multistage import HybridSpec, RerankSpec
from mrc_workbench.retrieval.comparison.spec import Spec
from mrc_workbench.retrieval.comparison.store import ComparisonJob
from mrc_workbench.retrieval.dense import IndexKind
from mrc_workbench.retrieval.measures import evaluate
from mrc_workbench.retrieval.significance import mean_interval, question_groups
from tests.data.split.worlds import set_of
from tests.doubles import small_set
from tests.retrieval.compared import comparison_of, rankings

SPECS: tuple[Spec, ...] = (
    BM25Spec(name="BM25", title=False, selected_on=Part.VALIDATION),
    DenseSpec(name="Dense"),
    HybridSpec(name="Hybrid", retrievers=("BM25", "Dense")),
    RerankSpec(name="Reranked", first_stage="Hybrid"),
    LateSpec(name="Late", model="base", windows=True, layers="upper"),
)
COMPARED = Experiment(data="sample", split=Part.TEST, seed=3, test_fraction=0.25, ks=(1, 10), retriever=SPECS)


def names(specs: tuple[Spec, ...] | list[Spec]) -> list[str]:
    return [spec.name for spec in specs]


@pytest.mark.parametrize(
    ("lab", "kind", "given", "count"),
    [
        (
            labs.bm25_lab(COMPARED, "BM25", [Analyzer.WORD, Analyzer.KIWI], k1s=[1, 2], bs=[0.5]),
            LabKind.BM25,
            ["BM25"],
            4,
        ),
        (labs.lexical_lab(COMPARED, "BM25", [labs.option_changes(fb_docs=[3, 9])]), LabKind.LEXICAL, ["BM25"], 3),
        (labs.hybrid_lab(COMPARED, "Dense", "BM25"), LabKind.HYBRID, ["BM25", "Dense", "Hybrid"], 57),
        (labs.rerank_lab(COMPARED, "Reranked", [5, 20]), LabKind.RERANK, ["BM25", "Dense", "Hybrid", "Reranked"], 20),
        (labs.index_lab(COMPARED, "Dense"), LabKind.INDEX, ["Dense"], 4),
        (labs.layers_lab(COMPARED, "Late"), LabKind.LAYERS, ["Late"], 5),
    ],
)
def test_lab_runs_on_validation_part_of_split(lab: Experiment, kind: LabKind, given: list[str], count: int) -> None:
    assert (lab.lab, lab.split, lab.split_options) == (kind, Part.VALIDATION, COMPARED.split_options)
    assert names(lab.retriever[: len(given)]) == given
    assert all(spec.selected_on is None for spec in lab.retriever[: len(given)])
    assert labs.tried_specs(lab) == list(lab.retriever[len(given) :])
    assert len(labs.tried_specs(lab)) == count
    assert all(spec.selected_on is Part.VALIDATION for spec in labs.tried_specs(lab))
    assert ComparisonJob.of(lab, "f").folder != ComparisonJob.of(lab.model_copy(update={"lab": None}), "f").folder


def test_bm25_lab_varies_only_its_values() -> None:
    lab = labs.bm25_lab(COMPARED, "BM25", [Analyzer.WORD], sentences=[0, 3], k1s=[0.3, 2], bs=[0.75])
    common = {"analyzer": Analyzer.WORD, "b": 0.75, "title": False, "selected_on": Part.VALIDATION}
    values = [{"name": f"word · k1 {k1:g} · b 0.75", "k1": k1} | common for k1 in (0.3, 2)]
    windows = [setting | {"name": f"windows of 3 · {setting['name']}", "sentences": 3} for setting in values]
    expected = [*map(BM25Spec.model_validate, values), *map(WindowedBM25Spec.model_validate, windows)]
    assert labs.tried_specs(lab) == expected


def test_bm25_lab_keeps_usable_options() -> None:
    of_language = {"compounds": "split", "dictionary": "words.txt"}
    options = {"title_weight": 2.0, "pairs": True, "fb_docs": 5, **of_language}
    present = BM25Spec(name="BM25", **options)  # type: ignore[arg-type]
    compared = COMPARED.model_copy(update={"retriever": (present,)})
    lab = labs.bm25_lab(compared, "BM25", [Analyzer.KIWI, Analyzer.WORD], sentences=[0, 2], k1s=[1], bs=[0])
    others = {"name", "selected_on", "kind", "k1", "b", "title", "engine"}
    option_values = [spec.model_dump(exclude=others) for spec in labs.tried_specs(lab)]
    of_kiwi = {"analyzer": "kiwi", **options}
    words = {"analyzer": "word", "title_weight": 2.0, "pairs": True}
    windows = {name: value for name, value in of_kiwi.items() if name != "fb_docs"}
    assert option_values == [of_kiwi, words | {"fb_docs": 5}, windows | {"sentences": 2}, words | {"sentences": 2}]


def test_lexical_lab_tries_single_and_combined_changes() -> None:
    present = BM25Spec(name="BM25", k1=0.6, title_weight=4)
    compared = COMPARED.model_copy(update={"retriever": (present,)})
    kinds = [
        labs.option_changes(title_weight=[None, 2.0]),
        labs.option_changes(fb_docs=[3], fb_weight=[0.1, 0.3]),
        labs.option_changes(compounds=["split"]),
    ]
    lab = labs.lexical_lab(compared, "BM25", kinds)
    first = {"title_weight": 4.0}
    few = {"fb_docs": 3, "fb_weight": 0.1}
    many = {"fb_docs": 3, "fb_weight": 0.3}
    split: dict[str, object] = {"compounds": "split"}
    others = {"name", "selected_on", "kind", "analyzer", "b", "title", "engine"}
    dumped = {spec.name: spec.model_dump(mode="json", exclude=others) for spec in labs.tried_specs(lab)}
    assert {name: values for name, values in dumped.items() if name.count("·") < 2} == {
        labs.UNCHANGED: {"k1": 0.6, **first},
        "title weight none": {"k1": 0.6},
        "title weight 2": {"k1": 0.6, "title_weight": 2.0},
        "fb docs 3 · fb weight 0.1": {"k1": 0.6, **first, **few},
        "fb docs 3 · fb weight 0.3": {"k1": 0.6, **first, **many},
        "compounds split": {"k1": 0.6, **first, **split},
    }
    together = {"k1": 0.6, "title_weight": 2.0, **few, **split}
    assert dumped["title weight 2 · fb docs 3 · fb weight 0.1 · compounds split"] == together
    assert len(dumped) == 1 + 5 + 2 * 2 * 1
    assert len(labs.tried_specs(labs.lexical_lab(compared, "BM25", kinds[:1]))) == 3  # nothing to combine


@pytest.mark.parametrize(
    "kinds",
    [
        [labs.option_changes(title_weight=range(1, labs.MAX_CHANGES + 2))],
        [labs.option_changes(title_weight=[-1])],
        [labs.option_changes(fb_weight=[0.1])],  # of no passages
        [labs.option_changes(sorcery=[1])],
    ],
)
def test_rejects_impossible_changes(kinds: list[list[dict[str, object]]]) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 - also pydantic's own
        labs.lexical_lab(COMPARED.model_copy(update={"retriever": (BM25Spec(name="BM25"),)}), "BM25", kinds)


def test_windows_reject_feedback_options() -> None:
    compared = COMPARED.model_copy(update={"retriever": (WindowedBM25Spec(name="Windows", sentences=2),)})
    assert len(labs.tried_specs(labs.lexical_lab(compared, "Windows", [labs.option_changes(title_weight=[1, 2])]))) == 3
    with pytest.raises(ValueError, match="fb_docs"):
        labs.lexical_lab(compared, "Windows", [labs.option_changes(fb_docs=[5])])


def test_name_lists_selected_and_present_options() -> None:
    present = BM25Spec(name="Mine · title weight 2", title_weight=2)
    compared = COMPARED.model_copy(update={"retriever": (present,)})
    lab = labs.lexical_lab(compared, present.name, [labs.option_changes(fb_docs=[3], fb_weight=[0.5])])
    taken = labs.selected_spec(lab, "fb docs 3 · fb weight 0.5")
    assert taken.name == "Mine · title weight 2 · fb docs 3"  # its share is the usual one
    assert labs.selected_spec(lab, labs.UNCHANGED).name == present.name
    compared = COMPARED.model_copy(update={"retriever": (taken,)})
    again = labs.lexical_lab(compared, taken.name, [labs.option_changes(title_weight=[None])])
    assert labs.selected_spec(again, "title weight none").name == "Mine · fb docs 3"


@pytest.mark.slow
def test_compares_changes_with_present_values(sample: QuestionSet) -> None:
    specs = (BM25Spec(name="BM25", analyzer=Analyzer.WORD),)
    compared = COMPARED.model_copy(update={"retriever": specs})
    _, table = compared_lab(labs.lexical_lab(compared, "BM25", [labs.option_changes(fb_docs=[3, 10])]), sample)
    by = table.set_index("name")
    changed = {f"fb docs {passages}": ("fb_docs",) for passages in (3, 10)}
    assert by["changed"].to_dict() == {labs.UNCHANGED: ()} | changed
    assert by["fb_docs"].tolist() == [0, 3, 10]
    unchanged = by.loc[labs.UNCHANGED]
    assert (unchanged["difference"], unchanged["difference_low"], unchanged["difference_high"]) == (0, 0, 0)
    for name in by.index:
        assert by["difference"][name] == pytest.approx(by["value"][name] - unchanged["value"], abs=1e-12)
        assert by["difference_low"][name] <= by["difference"][name] <= by["difference_high"][name]


def test_hybrid_weights_sum_to_1() -> None:
    for spec in labs.tried_specs(labs.hybrid_lab(COMPARED, "Dense", "BM25")):
        assert isinstance(spec, HybridSpec)
        assert spec.retrievers == ("Dense", "BM25")
        assert spec.weights is not None
        assert sum(spec.weights) == pytest.approx(1, abs=1e-12)
        assert spec.name == f"{spec.fusion} · {spec.weights[0]:g}"


@pytest.mark.parametrize("lab", [labs.bm25_lab, labs.rerank_lab, labs.index_lab, labs.layers_lab])
def test_rejects_lab_of_other_retriever_kind(lab: object) -> None:
    values = [[Analyzer.WORD]] if lab is labs.bm25_lab else []
    with pytest.raises(ValueError, match="'Hybrid'"):
        lab(COMPARED, "Hybrid", *values)  # type: ignore[operator]


def test_selected_names_describe_settings_without_repeating() -> None:
    selected = {
        "kiwi · k1 0.9 · b 0.4": labs.bm25_lab(COMPARED, "BM25", [Analyzer.KIWI], k1s=[0.9], bs=[0.4]),
        "z-score · 0.35": labs.hybrid_lab(COMPARED, "BM25", "Dense"),
        "20 · 0.5": labs.rerank_lab(COMPARED, "Reranked", [20]),
        "hnsw": labs.index_lab(COMPARED, "Dense"),
        "last-idf": labs.layers_lab(COMPARED, "Late"),
    }
    used = {name: labs.selected_spec(lab, name) for name, lab in selected.items()}
    assert names(list(used.values())) == [
        "BM25 · kiwi · k1 0.9 · b 0.4",
        "Hybrid · BM25 35 + Dense 65 · z-score",
        "Reranked · first 20 · weight 0.5",
        "Dense · hnsw",
        "Late · last-idf",
    ]
    assert all(spec.selected_on is Part.VALIDATION for spec in used.values())
    again = COMPARED.model_copy(update={"retriever": (*SPECS, used["20 · 0.5"], used["hnsw"])})
    reranking = labs.rerank_lab(again, "Reranked · first 20 · weight 0.5", [5])
    assert labs.selected_spec(reranking, "5 · 1").name == "Reranked · first 5 · weight 1"
    assert labs.selected_spec(labs.index_lab(again, "Dense · hnsw"), "int8").name == "Dense · int8"


NUMBERS = {"0.9, 0.4": (0.4, 0.9), " 1;2 1 ": (1.0, 2.0), "0": (0.0,), "1e-1,": (0.1,)}


@pytest.mark.parametrize(("text", "values"), NUMBERS.items())
def test_parses_numbers(text: str, values: tuple[float, ...]) -> None:
    assert labs.parse_numbers(text, maximum=2) == values


@pytest.mark.parametrize("text", ["", "a", "-1", "3", "nan", "inf", "1 " + " ".join(f"0.{n}" for n in range(20, 40))])
def test_rejects_invalid_numbers(text: str) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 - also float's own
        labs.parse_numbers(text, maximum=2)


def test_selects_analyzers_by_script() -> None:
    assert labs.analyzers_for(["한글을 만든 왕"])[0] is Analyzer.KIWI_BIGRAM
    assert labs.analyzers_for(["한글을 만든 왕"])[1:] == (Analyzer.KIWI, Analyzer.BIGRAM, Analyzer.WORD)
    assert labs.analyzers_for(["the king"])[0] is Analyzer.WORD
    assert labs.analyzers_for(["東京は日本の首都"]) == (Analyzer.JAPANESE, Analyzer.BIGRAM, Analyzer.WORD)
    assert labs.analyzers_for(["东京是日本的首都"])[0] is Analyzer.BIGRAM
    for text in ("the king", "東京は日本の首都"):
        assert Analyzer.KIWI not in labs.analyzers_for([text])
        assert len(set(labs.analyzers_for([text]))) == len(labs.analyzers_for([text])) > 1


def compared_lab(lab: Experiment, question_set: QuestionSet) -> tuple[Comparison, pd.DataFrame]:
    compared = compare(lab, question_set)
    return compared, labs.lab_results(compared, "ndcg@10", question_groups(compared.question_set))


@pytest.mark.slow
def test_lab_table_matches_single_settings(sample: QuestionSet) -> None:
    lab = labs.bm25_lab(COMPARED, "BM25", [Analyzer.WORD, Analyzer.BIGRAM], sentences=[0, 1], k1s=[0.5, 1], bs=[0, 1])
    compared, table = compared_lab(lab, sample)
    assert len(table) == 16
    assert table["sentences"].tolist() == [0] * 8 + [1] * 8
    groups = question_groups(compared.question_set)
    for row in (0, 7, 12):
        alone = compare(lab.model_copy(update={"retriever": (labs.tried_specs(lab)[row],)}), sample).results[0].scores
        assert alone is not None
        values = alone.per_question["ndcg@10"]
        assert table["value"][row] == pytest.approx(values.mean(), abs=1e-12)
        assert (table["low"][row], table["high"][row]) == pytest.approx(mean_interval(values, groups), abs=1e-12)
    assert table["value"][table["name"] == labs.best_setting_name(table)].item() == table["value"].max()


@pytest.mark.slow
@pytest.mark.usefixtures("stored_work")
def test_weight_curve_ends_at_single_retrievers(sample: QuestionSet) -> None:
    lab = labs.hybrid_lab(COMPARED, "BM25", "Dense", [Fusion.RRF, Fusion.Z_SCORE], [0.001, 0.5, 0.999])
    compared, table = compared_lab(lab, sample)
    means = {result.name: result.scores.means()["ndcg@10"] for result in compared.results if result.scores}
    for fusion in ("rrf", "z-score"):
        curve = table[table["fusion"] == fusion].set_index("weight")["value"]
        assert sorted(curve.index) == [0, 0.001, 0.5, 0.999, 1]
        assert (curve[0], curve[1]) == (means["Dense"], means["BM25"])
    assert table[~table["is_variant"]]["name"].value_counts().to_dict() == {"BM25": 2, "Dense": 2}


def test_prefers_simplest_of_equal_settings() -> None:
    rows = [("deep", True, 100, 0.8), ("shallow", True, 5, 0.8), ("alone", False, 5, 0.8), ("worse", True, 5, 0.7)]
    table = pd.DataFrame(rows, columns=["name", "is_variant", "rerank_top_k", "value"])
    assert labs.best_setting_name(table) == "alone"
    assert labs.best_setting_name(table[table["is_variant"]]) == "shallow"
    assert labs.best_setting_name(table[table["is_variant"]].drop(columns="rerank_top_k")) == "deep"


@pytest.mark.slow
@pytest.mark.usefixtures("stored_work")
def test_reranking_stays_below_ceiling(sample: QuestionSet) -> None:
    compared, table = compared_lab(labs.rerank_lab(COMPARED, "Reranked", [2, 5, 20], [0.5, 1]), sample)
    assert (table["value"] <= table["ceiling"] + 1e-12).all()
    ceilings = table.groupby("rerank_top_k")["ceiling"].first()
    assert ceilings.is_monotonic_increasing
    alone = table[table["weight"] == 0]
    assert alone["name"].tolist() == ["Hybrid"] * 3
    assert alone["reranking_seconds"].tolist() == [0, 0, 0]
    costs = table[table["weight"] == 1].set_index("rerank_top_k")["reranking_seconds"]
    assert costs[20] > costs[5] > costs[2] > 0
    first = next(result for result in compared.results if result.name == "Hybrid").rankings
    assert first is not None
    question_set = compared.question_set
    hits = [
        bool({question_set.row_of_passage[id_] for id_ in question.relevant} & {*rows[:20].tolist()})
        for rows, question in zip(first.indices, question_set.questions, strict=True)
    ]
    assert ceilings[20] == pytest.approx(np.mean(hits))  # one relevant passage each: any hit ranks first


def test_computes_ceiling() -> None:
    question_set = small_set()
    first = rankings(*[[4, 1, 2, 0, 3, *[-1] * 5]] * 6)  # p5 p2 p3 p1 p4
    compared = Comparison(Experiment(data="s", ks=(1, 2), retriever=SPECS[:1]), question_set, ())
    # relevant: q1 p1 (4th), q2 p2 (2nd), q3 p3 (3rd), q4 p4 (5th), q5 p5 (1st), q6 p2 and p3 (2nd, 3rd)
    assert labs.ceiling(first, compared, 1, "mrr@10") == pytest.approx((1 / 4 + 1 / 2 + 1 / 3 + 1 / 5 + 1 + 1 / 2) / 6)
    assert labs.ceiling(first, compared, 2, "hit@1") == pytest.approx(3 / 6)
    assert labs.ceiling(first, compared, 3, "recall@2") == pytest.approx(4 / 6)
    assert labs.ceiling(first, compared, 5, "recall@2") == 1
    assert evaluate(first, question_set, (1, 2)).means()["hit@1"] == pytest.approx(1 / 6)


def test_computes_overlap() -> None:
    exact = rankings([0, 1, 2, 3], [4, 3, -1, -1], [-1, -1, -1, -1])
    other = rankings([2, 0, 4, 1], [4, -1, -1, -1], [0, 1, 2, 3])
    assert labs.overlap(exact, other, 1) == pytest.approx((0 + 1) / 2)
    assert labs.overlap(exact, other, 2) == pytest.approx((1 / 2 + 1 / 2) / 2)
    assert labs.overlap(exact, other, 4) == pytest.approx((3 / 4 + 1 / 2) / 2)
    assert labs.overlap(exact, exact, 4) == 1
    assert labs.overlap(rankings([-1]), rankings([0]), 1) == 1


@pytest.mark.slow
@pytest.mark.usefixtures("stored_work")
def test_compares_indexes_with_exact_index(sample: QuestionSet) -> None:
    compared, table = compared_lab(labs.index_lab(COMPARED, "Dense"), sample)
    by = table.set_index("name")
    assert list(by.index) == [kind.value for kind in IndexKind]
    exact = by.loc["exact"]
    assert (exact["overlap"], exact["difference"]) == (1, 0)
    for name in by.index:
        assert by["difference"][name] == pytest.approx(by["value"][name] - exact["value"], abs=1e-12)
        assert by["difference_low"][name] <= by["difference"][name] <= by["difference_high"][name]
    assert by["memory_bytes"]["int8"] < exact["memory_bytes"] / 3
    assert by["overlap"]["int8"] > 0.9
    assert compared.experiment.lab is LabKind.INDEX


@pytest.mark.slow
@pytest.mark.usefixtures("stored_work")
def test_omits_failed_settings_from_table(sample: QuestionSet) -> None:
    lab = labs.index_lab(COMPARED, "Dense")
    compared = compare(lab, sample)
    groups = question_groups(compared.question_set)
    failed = tuple(Result(result.name, error=ValueError("broken")) for result in compared.results)
    broken = Comparison(lab, compared.question_set, (*compared.results[:-1], failed[-1]))
    assert labs.lab_results(broken, "ndcg@10", groups)["name"].tolist() == ["exact", "hnsw", "ivf"]
    assert labs.lab_results(Comparison(lab, compared.question_set, failed), "ndcg@10", groups).empty


PRESENT = "present"
HIT = "hit@1"
WORLD = set_of(([row] for row in range(40)), 40, titles=[f"article {row}" for row in range(20)])


def folds_of(question_set: QuestionSet) -> np.ndarray:
    return TrainingQueries.from_question_set(question_set, np.arange(len(question_set.questions))).folds


def lab(right: Mapping[str, Sequence[bool]], question_set: QuestionSet = WORLD) -> Comparison:
    """A comparison in which each retriever ranks the relevant passage first for some questions, and last for others."""
    n_passages = len(question_set.passages)
    rankings = {
        name: [[row if is_right else (row + 1) % n_passages] for row, is_right in enumerate(rows)]
        for name, rows in right.items()
    }
    return comparison_of(rankings, question_set, ks=(1,), depth=1)


def fitted(comparison: Comparison, *names: str, current: str = PRESENT) -> CrossFit | None:
    table = pd.DataFrame({"name": names, "is_variant": True})
    return cross_fit(comparison, table, current, HIT, question_groups(comparison.question_set))


def test_selection_gains_nothing_on_its_own_questions() -> None:
    folds = folds_of(WORLD)
    lucky = {f"fold {fold}": (folds == fold).tolist() for fold in range(FOLDS)}
    comparison = lab({PRESENT: [False] * 40, **lucky})
    assert max(comparison.scores[name].per_question[HIT].mean() for name in lucky) >= 1 / FOLDS
    fit = fitted(comparison, *lucky)
    assert fit is not None
    assert (fit.test.difference, fit.test.wins, fit.test.losses) == (0, 0, 0)
    assert not fit.test.is_significant


def test_better_setting_keeps_its_gain() -> None:
    better = [row % 4 > 0 for row in range(40)]
    fit = fitted(lab({PRESENT: [False] * 40, "better": better, "equal": [False] * 40}), "equal", "better")
    assert fit is not None
    assert fit.test.difference == pytest.approx(np.mean(better))
    assert fit.selections == {"better": FOLDS}
    assert fit.folds == FOLDS
    assert fit.test.is_significant
    assert fit.test.low > 0


def test_scores_each_fold_with_best_setting_of_others() -> None:
    random = np.random.default_rng(0)
    right = {name: (random.random(40) < 0.5).tolist() for name in (PRESENT, "a", "b", "c")}
    comparison = lab(right)
    fit = fitted(comparison, "a", "b", "c")
    values = {name: np.array(rows, dtype=float) for name, rows in right.items()}
    folds = folds_of(WORLD)
    expected = 0.0
    for fold in range(FOLDS):
        means = {name: values[name][folds != fold].mean() for name in ("a", "b", "c")}
        selected = max(means, key=means.__getitem__)
        expected += (values[selected] - values[PRESENT])[folds == fold].sum()
    assert fit is not None
    assert fit.test.difference == pytest.approx(expected / 40)
    assert sum(fit.selections.values()) == FOLDS
    assert list(fit.selections.values()) == sorted(fit.selections.values(), reverse=True)


def test_returns_none_without_reference_value_or_second_fold() -> None:
    assert fitted(lab({PRESENT: [True] * 40, "a": [True] * 40}), "a", current="failed") is None
    single = set_of([[0]], 2)
    assert fitted(lab({PRESENT: [False], "a": [True]}, single), "a") is None
