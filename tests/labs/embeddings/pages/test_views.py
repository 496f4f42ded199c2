"""Every view of the Embeddings page over handmade results, and the encodings of its charts."""

import json
from dataclasses import asdict
from typing import Any

import numpy as np
import pandas as pd
import pytest
from streamlit.testing.v1 import AppTest

from mrc_workbench.data.cache import Arrays, save_arrays
from mrc_workbench.data.pairs.store import StoredPairs
from mrc_workbench.data.split import Part
from mrc_workbench.data.workspace import write_json
from mrc_workbench.labs.embeddings import results
from mrc_workbench.labs.embeddings.encoder import SIZES, CostComparison, CostPoint, Method
from mrc_workbench.labs.embeddings.geometry import Projection
from mrc_workbench.labs.embeddings.pages import cosines, further, measures
from mrc_workbench.labs.embeddings.study import STUDY
from mrc_workbench.retrieval.report.charts import colour_of
from mrc_workbench.workbench.views.ui.words import catalog
from tests.labs.embeddings.pages import worlds
from tests.labs.embeddings.pages.worlds import HUB, LIKE_NOBODY, LIKE_PEOPLE, SENTENCES, page, result, store_evaluation
from tests.workbench.views.driving import layers, opened, table_with, texts

pytestmark = pytest.mark.usefixtures("started")
EN = catalog("en")
NAMES = ("one", "two")


@pytest.fixture
def data() -> StoredPairs:
    return store_evaluation(worlds.scored_set(), result("starter", LIKE_NOBODY, -2.0), result(HUB, LIKE_PEOPLE))


def open_view(data: StoredPairs, view: str, **address: str) -> AppTest:
    return opened(page, pairs=data.key, models=f"starter|{HUB}", look=view, **address)


def store_task(request: results.EmbeddingRequest, data: StoredPairs, arrays: Arrays, content: dict[str, Any]) -> None:
    folder = STUDY.job(request, data.fingerprint).folder
    folder.mkdir(parents=True)
    save_arrays(folder / "arrays.npz", arrays)
    write_json(folder / "scores.json", content)


def test_space_shows_conventions_and_metrics(data: StoredPairs) -> None:
    app = open_view(data, "space")
    assert "a human score of 4 or more out of 5" in texts(app)
    assert "t = 2" in texts(app)
    table = table_with(app, "half")
    assert table.set_index("model").loc[EN["train.starter"], "uniformity"] == -2
    assert table["half"].tolist() == [1, 1]  # 1 of 1 + 1/4 + 1/16 + 1/100
    assert len(app.get("vega_lite_chart")) == 2


def test_shows_training_path(data: StoredPairs) -> None:
    run = worlds.create_finished_run(data)
    for step, alignment in ((0, 0.5), (10, 0.25)):
        run.add_progress({"step": step, "eval_validation_alignment": alignment, "eval_validation_uniformity": -1.5})
    learned = store_evaluation(worlds.scored_set(), result("starter", LIKE_NOBODY), result(run.id, LIKE_PEOPLE))
    app = opened(page, pairs=learned.key, models=f"starter|{run.id}", look="space")
    assert EN["embeddings.path_help"] in texts(app)
    path = table_with(app, "step")
    assert (path["step"].tolist(), path["alignment"].tolist()) == ([0, 10], [0.5, 0.25])
    assert set(path["model"]) == {"Mine"}


def test_density_counts_pairs_by_band(data: StoredPairs) -> None:
    table = table_with(open_view(data, "density"), "band")
    assert table["count"].tolist() == 2 * [5, 3, 0, 0, 2]  # a score on a border belongs to the higher band
    lowest = np.sort(LIKE_PEOPLE[worlds.GOLD < 1])
    assert table["median"][0] == pytest.approx(np.median(lowest))


def test_wrong_pairs_are_sorted_worst_first(data: StoredPairs) -> None:
    table = table_with(open_view(data, "wrong", wrong_of="starter"), "misplaced")
    first = table.iloc[0]
    assert {first["first"], first["second"]} == {SENTENCES[0], SENTENCES[1]}  # people: most alike; the starter: not
    assert first["gold"] == pytest.approx(4.6)
    assert first[HUB] == pytest.approx(0.95)
    assert first["misplaced"] == pytest.approx(-80)
    alike = table_with(open_view(data, "wrong", wrong_of="starter", wrong_side="too_alike"), "misplaced")
    assert (alike["misplaced"] > 0).all()


def test_requests_and_shows_similarity_matrix(data: StoredPairs, started: list[results.EmbeddingRequest]) -> None:
    open_view(data, "sentences", sentences="하나\n둘")
    request = results.SimilarityRequest(data=data.key, models=(HUB, "starter"), sentences=("하나", "둘"))
    assert started == [request]
    matrix = np.array([[1, 0.25], [0.25, 1]], dtype=np.float32)
    store_task(request, data, {"matrix_0": matrix, "matrix_1": matrix / 2}, {"models": {HUB: {}, "starter": {}}})
    app = open_view(data, "sentences", sentences="하나\n둘")
    assert app.dataframe[0].value.iloc[0, 1] == pytest.approx(0.25)
    assert "0.250" in app.code[0].value


def test_failed_model_has_no_matrix(data: StoredPairs) -> None:
    request = results.SimilarityRequest(data=data.key, models=(HUB, "starter"), sentences=("하나", "둘"))
    models = {HUB: {"error": "x", "code": "hub_unreachable", "model": HUB}, "starter": {}}
    store_task(request, data, {"matrix_1": np.eye(2, dtype=np.float32)}, {"models": models})
    app = open_view(data, "sentences", sentences="하나\n둘", matrix_of=HUB)
    assert "hub is unreachable" in app.error[0].value


def test_shows_nearest_sentences(data: StoredPairs) -> None:
    request = results.NeighboursRequest(data=data.key, model=HUB, part=Part.TEST, sentences=("기차",), k=10)
    arrays = {"cosines": np.array([[0.9, 0.5]], dtype=np.float32), "rows": np.array([[2, 3]])}
    store_task(request, data, arrays, {"model": HUB})
    table = table_with(open_view(data, "sentences", near="기차"), "sentence")
    assert table["sentence"].tolist() == [SENTENCES[2], SENTENCES[3]]


def test_map_lists_and_filters_sentences(data: StoredPairs) -> None:
    app = open_view(data, "map")
    assert "50% and 25%" in texts(app)
    table = table_with(app, "x")
    assert table["sentence"].tolist() == list(SENTENCES)
    assert table["group"][1] == "4 – 5"  # of its first pair, with the first sentence
    (chart,) = app.get("deck_gl_json_chart")
    assert "mapStyle" not in chart.proto.json
    tooltip = json.loads(chart.proto.tooltip)
    assert tooltip["text"] == "{t}"
    assert "html" not in tooltip  # sentences are plain text
    assert SENTENCES[4] in chart.proto.json
    matches = table_with(open_view(data, "map", find="고양이"), "x")
    assert matches["sentence"].tolist() == [SENTENCES[0], SENTENCES[1]]


def test_map_samples_points_and_keeps_matches(data: StoredPairs, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(further, "_MAX_RENDERED_POINTS", 3)

    def rendered_sentences(**address: str) -> set[str]:
        (chart,) = open_view(data, "map", **address).get("deck_gl_json_chart")
        return {sentence for sentence in SENTENCES if f'"{sentence}"' in chart.proto.json}

    some = rendered_sentences()
    assert len(some) == 3
    assert rendered_sentences(points="all") == set(SENTENCES)
    (hidden, *_) = set(SENTENCES) - some
    assert rendered_sentences(find=hidden) == some | {hidden}


def test_plain_sentences_have_map_only() -> None:
    data = store_evaluation(worlds.sentence_set(), result("starter", LIKE_PEOPLE[:0]), part=Part.ALL)
    address = {"pairs": data.key, "pairs_part": "all", "models": "starter"}
    assert len(opened(page, **address, look="map").get("deck_gl_json_chart")) == 1
    assert EN["embeddings.no_bands"] in texts(opened(page, **address, look="density"))
    assert EN["embeddings.no_gold"] in texts(opened(page, **address, look="wrong"))
    assert EN["embeddings.no_positives"] not in texts(opened(page, **address, look="wrong"))


def test_umap_starts_by_button(data: StoredPairs, monkeypatch: pytest.MonkeyPatch) -> None:
    app = open_view(data, "map", projection="umap")
    assert EN["embeddings.start_umap"] in [button.label for button in app.button]
    assert not app.get("deck_gl_json_chart")
    points = np.arange(10, dtype=np.float32).reshape(5, 2)
    request = results.MapRequest(data=data.key, model=HUB, part=Part.TEST, projection=Projection.UMAP)
    store_task(request, data, {"points": points, "explained": np.zeros(0)}, {"model": HUB})
    app = open_view(data, "map", projection="umap")
    assert len(app.get("deck_gl_json_chart")) == 1
    assert EN["embeddings.about_umap"] in texts(app)
    monkeypatch.setattr(further, "find_spec", lambda _: None)
    assert EN["embeddings.no_umap"] in texts(open_view(data, "map", projection="umap"))


def test_cost_starts_by_button_and_is_extrapolated(data: StoredPairs, started: list[results.EmbeddingRequest]) -> None:
    app = open_view(data, "cost")
    assert started == []
    request = results.CostRequest(data=data.key, bi_encoder=HUB, cross_encoder="starter", seconds=10)
    app.button(key=f"start_{STUDY.job(request, data.fingerprint).id}").click().run()
    assert started == [request]
    factors = {Method.CROSS_ENCODER: 1.0, Method.EXACT: 0.01, Method.HNSW: 0.01}
    points = tuple(CostPoint(method, size, size * factors[method], size < 100) for method in Method for size in SIZES)
    store_task(request, data, {}, asdict(CostComparison(points, 0.975)))
    app = open_view(data, "cost")
    assert "a factor of 100" in texts(app)
    assert "65 hours" in texts(app)
    assert "97.5%" in texts(app)
    table = table_with(app, "how")
    counts = table["how"].value_counts()
    assert counts[EN["embeddings.measured"]] == 3
    assert counts[EN["embeddings.not_measured_here"]] == 2
    assert table["seconds"].max() == 65 * 3600


def test_dot_chart_marks_published_values() -> None:
    rows = [("one", 80.0, 75.0, 85.0, True, ""), ("theirs", 70.0, None, None, False, "a paper")]
    table = pd.DataFrame(rows, columns=["model", "value", "low", "high", "is_measured_here", "source"])
    intervals, marks, published = layers(measures.dot_chart(table, NAMES, x="Spearman"))
    assert intervals["mark"]["type"] == "rule"
    assert marks["mark"]["filled"]
    assert marks["encoding"]["color"]["scale"] == {"domain": ["one"], "range": [colour_of("one", NAMES)]}
    assert "filled" not in published["mark"]
    assert published["transform"] == [{"filter": "!datum.is_measured_here"}]
    assert [field["field"] for field in published["encoding"]["tooltip"]] == ["model", "value", "source"]


def test_ridges_start_at_their_band() -> None:
    table = pd.DataFrame({"band": ["1 – 2", "0 – 1"], "band_index": [1, 0], "cosine": 0.5, "density": [2.0, 1.0]})
    spec = cosines.ridge_chart(table, ["0 – 1", "1 – 2"], "two", NAMES, x="cosine").to_dict()
    rows = next(iter(spec["datasets"].values()))
    assert [row["top"] - row["band_index"] for row in rows] == pytest.approx([1.6, 0.8])
    assert spec["mark"]["color"] == colour_of("two", NAMES)
    assert spec["encoding"]["y"]["axis"]["values"] == [0, 1]
    assert "['0 – 1', '1 – 2']" in spec["encoding"]["y"]["axis"]["labelExpr"]


def test_geometry_chart_draws_path_if_present() -> None:
    points = pd.DataFrame({"model": ["one"], "alignment": [0.2], "uniformity": [-1.0]})
    none = pd.DataFrame(columns=["model", "step", "alignment", "uniformity"])
    assert len(layers(measures.geometry_chart(points, none, NAMES))) == 1
    path = points.assign(step=10)
    line, small, large = layers(measures.geometry_chart(points, path, NAMES))
    assert line["mark"]["type"] == "line"
    assert line["encoding"]["order"]["field"] == "step"
    assert small["mark"]["size"] < large["mark"]["size"]


def test_matrix_colours_ignore_diagonal() -> None:
    columns = {"row": list("1122"), "column": list("1212"), "first": list("aabb"), "second": list("abab")}
    table = pd.DataFrame({**columns, "cosine": [1.0, 0.8, 0.8, 1.0]})
    cells, labels = layers(cosines.matrix_chart(table, ["1", "2"]))
    low, high = cells["encoding"]["color"]["scale"]["domain"]
    assert low == 0.8
    assert high == pytest.approx(0.8, abs=1e-5)
    assert labels["mark"]["type"] == "text"
    many = [str(number) for number in range(21)]
    assert len(layers(cosines.matrix_chart(table, many))) == 1


def test_cost_chart_marks_extrapolated_and_published_values() -> None:
    table = pd.DataFrame({"method": "a", "sentences": [30, 100], "seconds": [1.0, 9.0], "is_measured": [True, False]})
    published = pd.DataFrame({"method": ["theirs"], "sentences": [10_000], "seconds": [5.0]})
    dashed, solid, points, reported = layers(further.cost_chart(table, published))
    assert dashed["mark"]["strokeDash"]
    assert solid["transform"] == points["transform"] == [{"filter": "datum.is_measured"}]
    assert "filled" not in reported["mark"]


def test_correlation_chart_has_minimum_span() -> None:
    table = pd.DataFrame({"model": ["one", "two"], "spearman": [30.0, 50.0], "value": [72.40, 72.42]})
    (marks,) = layers(further.correlation_chart(table, NAMES, y="nDCG@10"))
    low, high = marks["encoding"]["y"]["scale"]["domain"]
    assert low < 71
    assert high > 73
    assert marks["encoding"]["x"]["scale"]["domain"] == [28.0, 52.0]
