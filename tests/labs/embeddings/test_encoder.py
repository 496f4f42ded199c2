"""Sentences once each, their vectors, kept and resumed, and the models that a person adds to those measured."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mrc_workbench.data.pairs import PairKind, PairSet
from mrc_workbench.data.workspace import workspace, write_text
from mrc_workbench.labs.embeddings.encoder import Distinct, add, added, encode, remove
from mrc_workbench.models import vectors as vector_blocks
from mrc_workbench.models.encoders import BiEncoder
from mrc_workbench.models.files import ModelError
from mrc_workbench.models.loading import load_bi_encoder
from mrc_workbench.models.sources import find_model
from tests.labs.embeddings.worlds import scored_pairs

SENTENCES = scored_pairs().sentences


def test_sentences_stand_once_and_pairs_that_share_one_are_a_group() -> None:
    first, second = ["가", "나", "라", "마"], ["나", "다", "라", "바"]
    found = Distinct.of(PairSet.of("small", PairKind.PARALLEL, [first, second]))
    assert found.sentences == ["가", "나", "라", "마", "다", "바"]
    assert found.places.tolist() == [[0, 1], [1, 4], [2, 2], [3, 5]]
    assert found.groups.tolist() == [0, 0, 1, 2]
    assert found.sentence_groups.tolist() == [0, 0, 1, 2, 0, 2]


def test_triplets_and_sentences_alone() -> None:
    triplets = Distinct.of(PairSet.of("t", PairKind.TRIPLETS, [["가", "나"], ["다", "라"], ["마", "마"]]))
    assert triplets.groups.tolist() == [0, 0]
    alone = Distinct.of(PairSet.of("s", PairKind.SENTENCES, [["가", "나", "가"]]))
    assert alone.groups.tolist() == [0, 1, 0]


@pytest.mark.slow
def test_vectors_are_those_of_the_model_asked_as_questions() -> None:
    shares: list[float] = []
    found = encode("starter", SENTENCES[:20], SENTENCES, on_progress=shares.append)
    model = load_bi_encoder(find_model("starter"), SENTENCES)
    wanted = np.asarray(model.encode_query(SENTENCES[:20], normalize_embeddings=True))
    assert found.vectors == pytest.approx(wanted, abs=1e-6)
    assert shares[-1] == 1
    assert shares == sorted(shares)


@pytest.mark.slow
def test_what_was_interrupted_goes_on_after_the_last_whole_block(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vector_blocks, "BLOCK", 5)
    asked: list[int] = []
    plain = BiEncoder.encode

    def ended_early(self: BiEncoder, side: str, texts: list[str], *told: Any) -> np.ndarray:
        asked.append(len(texts))
        if len(asked) == 3:
            raise KeyboardInterrupt
        return plain(self, side, texts, *told)

    monkeypatch.setattr(BiEncoder, "encode", ended_early)
    with pytest.raises(KeyboardInterrupt):
        encode("starter", SENTENCES[:20], SENTENCES)
    found = encode("starter", SENTENCES[:20], SENTENCES)
    assert asked == [5, 5, 5, 5, 5]  # two whole, one ended, and the two that were missing
    monkeypatch.undo()
    whole = BiEncoder(find_model("starter"), SENTENCES).encode("question", SENTENCES[:20])
    assert found.vectors == pytest.approx(whole)


def test_a_model_that_is_not_there_is_told_by_its_name(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="no/such/model"):
        encode("no/such/model", SENTENCES, SENTENCES, base=tmp_path)


def test_a_model_is_added_once_and_removed_again() -> None:
    for reference in ("klue/roberta-base", "snunlp/KR-SBERT-V40K-klueNLI-augSTS", "klue/roberta-base"):
        add(reference)
    assert added() == ["snunlp/KR-SBERT-V40K-klueNLI-augSTS", "klue/roberta-base"]
    remove("klue/roberta-base")
    assert added() == ["snunlp/KR-SBERT-V40K-klueNLI-augSTS"]


def test_what_no_model_can_be_called_is_not_added_and_a_damaged_list_is_an_empty_one() -> None:
    with pytest.raises(ModelError):
        add("no such/model of/this name")
    assert added() == []
    write_text(workspace() / "embeddings" / "models.json", '{"models": "x"}')
    assert added() == []


@pytest.mark.parametrize("content", ["{", '{"models": "x"}', '{"models": ["klue/roberta-base", 3]}'])
def test_a_damaged_list_is_set_aside_before_it_is_written(content: str) -> None:
    path = workspace() / "embeddings" / "models.json"
    write_text(path, content)
    known = added()
    add("snunlp/KR-SBERT-V40K-klueNLI-augSTS")
    assert added() == [*known, "snunlp/KR-SBERT-V40K-klueNLI-augSTS"]
    assert path.with_name("models.json.damaged").read_text(encoding="utf-8") == content
