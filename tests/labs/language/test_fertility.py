"""Metrics of a tokenizer, compared with counts by hand and by another method."""

import json
import os
import re
from collections.abc import Sequence
from dataclasses import asdict
from itertools import accumulate
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tokenizers import AddedToken, Tokenizer, models, pre_tokenizers

from mrc_workbench.data.text.corpora import is_held_out
from mrc_workbench.labs.language.comparison import HeldOutDocuments, measure_fertility
from mrc_workbench.models.language.tokenizer_training import PreTokenization, Sample, TokenizerKind, cut_positions
from mrc_workbench.models.language.tokenizers import PreparedTokenizer, load_tokenizer
from mrc_workbench.workbench.cli import main
from tests.doubles import raises_failure
from tests.models.language.test_tokenizer_training import CORPUS, SENTENCES, Documents, prepared
from tests.models.worlds import write_config

PIECES = ("[UNK]", "배", "##가", "##를", "고프다", "탔", "##다", "사과", ".", "먹었다")
FIVE_TEXTS = ["배가 고프다", "배를 탔다.", "사과를 먹었다", "항구 배", "배가\n고프다 탔다"]
# 배 ##가 고프다 | 배 ##를 탔 ##다 . | 사과 ##를 먹었다 | [UNK] 배 | 배 ##가 고프다 탔 ##다


def handmade_tokenizer() -> PreparedTokenizer:
    tokenizer = Tokenizer(models.WordPiece({piece: row for row, piece in enumerate(PIECES)}, unk_token=PIECES[0]))
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    return PreparedTokenizer("by hand", tokenizer)


def test_fertility_matches_counts_by_hand() -> None:
    metrics = measure_fertility(handmade_tokenizer(), HeldOutDocuments.from_texts(FIVE_TEXTS))
    assert (metrics.documents, metrics.words, metrics.characters, metrics.tokens) == (5, 11, 26, 18)
    assert metrics.vocabulary_size == 10
    assert metrics.tokens_per_word == 18 / 11
    assert metrics.tokens_per_character == 18 / 26
    assert metrics.unknown_rate == 1 / 18
    assert metrics.unknown_words == 1 / 11
    assert metrics.whole_words == 4 / 11  # 고프다, 먹었다, 배, 고프다; 항구 is one piece as well, and none knows which
    # 배|가, 배|를, 탔|다, 사과|를, 배|가, 탔|다; of morphemes there are 고프|다, twice, and 먹|었|다 besides
    assert (metrics.precision, metrics.recall, metrics.f1) == (1.0, 6 / 10, 12 / 16)
    assert metrics.document_tokens == {"0.05": 2.2, "0.25": 3, "0.5": 3, "0.75": 5, "0.95": 5, "1": 5}
    assert metrics.longer_than_512 == 0
    assert metrics.tokens_per_second > 0
    assert metrics.seconds_to_train is None
    metrics = measure_fertility(handmade_tokenizer(), HeldOutDocuments.from_texts(["배 배"]))
    assert (metrics.precision, metrics.recall, metrics.f1) == (None, None, None)
    assert metrics.whole_words == 1


def test_counts_special_tokens() -> None:
    held_out_documents = HeldOutDocuments.from_texts([" ".join(["학교"] * words) for words in (1, 510, 511)])
    metrics = measure_fertility(prepared(TokenizerKind.BPE), held_out_documents)
    assert metrics.tokens == 1 + 510 + 511
    assert metrics.document_tokens["1"] == 513
    assert metrics.longer_than_512 == pytest.approx(1 / 3)
    tokenizer = handmade_tokenizer()
    tokenizer.tokenizer.add_special_tokens([AddedToken("[MASK]", special=True)])
    metrics = measure_fertility(tokenizer, HeldOutDocuments.from_texts(["배 [MASK]"]))
    assert (metrics.words, metrics.tokens) == (2, 2)


def count_words(tokenizer: PreparedTokenizer, texts: Sequence[str]) -> dict[str, float]:
    """Count by tokenizing each word separately, for tokenizers that split at blanks and punctuation."""
    words = [word for text in texts for word in text.split()]
    encodings = [tokenizer.tokenizer.encode(word, add_special_tokens=False) for word in words]
    tokens = sum(len(encoding.ids) for encoding in encodings)
    unknown = tokenizer.tokenizer.token_to_id("[UNK]")
    return {
        "tokens_per_word": tokens / len(words),
        "tokens_per_character": tokens / len(re.sub(r"\s", "", "".join(texts))),
        "unknown_rate": sum(encoding.ids.count(unknown) for encoding in encodings) / tokens,
        "unknown_words": sum(unknown in encoding.ids for encoding in encodings) / len(words),
        "whole_words": sum(len(encoding.ids) == 1 and encoding.ids != [unknown] for encoding in encodings) / len(words),
    }


@pytest.mark.parametrize("kind", TokenizerKind)
def test_metrics_match_words_tokenized_separately(kind: TokenizerKind) -> None:
    tokenizer = prepared(kind)
    texts = [*SENTENCES[:40], "뷁이 왔다 뷁뷁", " 쀍에서  걸었다 \n", "Café 123456km 🍎🍎"]
    metrics = asdict(measure_fertility(tokenizer, HeldOutDocuments.from_texts(texts)))
    for name, expected in count_words(tokenizer, texts).items():
        assert metrics[name] == pytest.approx(expected), name
    assert (metrics["unknown_rate"] > 0) == (metrics["unknown_words"] > 0) == (kind is not TokenizerKind.BYTE_BPE)


@pytest.mark.parametrize("kind", [TokenizerKind.WORDPIECE, TokenizerKind.BPE])
def test_morpheme_agreement_matches_boundary_sets(kind: TokenizerKind) -> None:
    tokenizer = prepared(kind)
    texts = ["기차에서를 학교도서관에서 만났다를 보았다", "강아지와 시장바다사과를, 먹었다도"]
    held_out_documents = HeldOutDocuments.from_texts(texts)
    hits = n_boundaries = morphemes = 0
    for text, boundaries in zip(held_out_documents.texts, held_out_documents.morphemes, strict=True):
        ends = [*accumulate(len(piece.text) for piece in tokenizer.pieces(text))]  # in the text without blanks
        index_of = [index for index, letter in enumerate(text) if letter != " "]
        cuts = [index_of[end] for end in ends[:-1]]
        inside = {index for index in cuts if re.fullmatch(r"\w\w", text[index - 1 : index + 1])}
        hits += len(inside & set(boundaries.tolist()))
        n_boundaries += len(inside)
        morphemes += len(boundaries)
    metrics = measure_fertility(tokenizer, held_out_documents)
    assert 0 < hits < n_boundaries
    assert metrics.precision == pytest.approx(hits / n_boundaries)
    assert metrics.recall == pytest.approx(hits / morphemes)
    assert metrics.f1 == pytest.approx(2 / (n_boundaries / hits + morphemes / hits))


@pytest.mark.parametrize("kind", TokenizerKind)
def test_morpheme_split_has_full_recall(kind: TokenizerKind) -> None:
    metrics = measure_fertility(prepared(kind, PreTokenization.MORPHEMES), HeldOutDocuments.from_texts(SENTENCES[:40]))
    assert metrics.recall == 1.0
    assert metrics.seconds_to_train is not None
    assert metrics.seconds_to_train > 0


def test_byte_and_overlapping_tokens_are_no_boundaries() -> None:
    vocabulary = {letter: row for row, letter in enumerate(pre_tokenizers.ByteLevel.alphabet())}
    tokenizer = Tokenizer(models.BPE(vocabulary, []))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    metrics = measure_fertility(PreparedTokenizer("bytes", tokenizer), HeldOutDocuments.from_texts(["학교 왔다"]))
    assert (metrics.tokens, metrics.words) == (4 * 3 + 1, 2)  # the blank is a piece, too
    assert (metrics.precision, metrics.recall) == (0.5, 1.0)  # 학|교 is no morpheme, 왔|다 are two
    assert metrics.unknown_rate == 0
    spans = np.array([(0, 2), (1, 3), (3, 4), (5, 6), (6, 7), (7, 8)])
    assert cut_positions(spans, "가나다라 가.나").tolist() == [3]


def test_measures_only_held_out_documents() -> None:
    sample = Sample(held_out=0.5, seed=3)
    whole = HeldOutDocuments.from_corpus(CORPUS, sample).texts
    assert [*whole] == [text for text in SENTENCES if is_held_out(text, 0.5, 3)]
    part = HeldOutDocuments.from_corpus(CORPUS, sample, max_characters=CORPUS.characters // 10).texts
    assert set(part) < set(whole)
    assert len(part) == pytest.approx(100, abs=4 * 90**0.5)
    with raises_failure("nothing_held_out"):
        HeldOutDocuments.from_corpus(Documents(("하나",)), Sample(held_out=0.0))


@pytest.fixture
def text(tmp_path: Path) -> Path:
    path = tmp_path / "sentences.txt"
    path.write_text("\n".join(SENTENCES), encoding="utf-8")
    return path


def compare_tokenizers(capsys: pytest.CaptureFixture[str], *arguments: object, status: int = 0) -> dict[str, Any]:
    assert main(["language", "compare-tokenizers", "--json", *map(str, arguments)]) == status
    return dict(json.loads(capsys.readouterr().out)["tokenizers"])


def test_measures_and_stores_all_kinds(capsys: pytest.CaptureFixture[str], text: Path, tmp_path: Path) -> None:
    results = compare_tokenizers(capsys, "--data", text, "--vocabulary", 1000, "--out", tmp_path / "out")
    assert [*results] == [*TokenizerKind]
    held_out_documents = HeldOutDocuments.from_corpus(CORPUS, Sample())
    for kind, metrics in results.items():
        stored = load_tokenizer(tmp_path / "out" / f"{kind}-words-1000")
        expected = asdict(measure_fertility(stored, held_out_documents))
        assert metrics["documents"] == len(held_out_documents.texts)
        assert metrics["fraction"] == 1.0
        for name in ("tokens_per_word", "unknown_rate", "whole_words", "f1", "document_tokens", "vocabulary_size"):
            assert metrics[name] == expected[name], name


@pytest.mark.slow
def test_compares_each_vocabulary_and_split(capsys: pytest.CaptureFixture[str], text: Path) -> None:
    options = ("--vocabulary", 1000, 1200, "--vocabulary", 1000, "--kind", "bpe", "--split", "words", "morphemes")
    results = compare_tokenizers(capsys, "--data", text, *options)
    expected = [f"bpe-{split}-{vocabulary}" for split in PreTokenization for vocabulary in (1000, 1200)]
    assert [*results] == expected
    assert [results[name]["vocabulary"] for name in expected] == [1000, 1200] * 2
    assert [results[name]["split"] for name in expected] == ["words"] * 2 + ["morphemes"] * 2
    assert results["bpe-morphemes-1000"]["recall"] == 1.0


def test_measures_model_tokenizers(capsys: pytest.CaptureFixture[str], text: Path, tmp_path: Path) -> None:
    model = write_config(tmp_path / "model")
    of_model = Tokenizer(models.WordLevel({"?": 0}, unk_token="?"))  # noqa: S106 - not a secret
    of_model.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    of_model.enable_truncation(3)  # a stored setting that metrics ignore
    of_model.save(str(model / "tokenizer.json"))
    options = ["--data", text, "--vocabulary", 1000, "--kind", "wordpiece"]
    options += ["--against", model, "--against", "no/such/model", "--against", "starter"]
    results = compare_tokenizers(capsys, *options, status=1)
    assert [*results] == ["wordpiece", str(model), "no/such/model", "starter"]
    assert results[str(model)]["tokens_per_word"] == 1.0
    assert results[str(model)]["unknown_rate"] == results[str(model)]["unknown_words"] == 1.0
    assert results[str(model)]["seconds_to_train"] is None
    assert "no readable tokenizer" in str(results["starter"]["error"])
    assert [results[name]["code"] for name in ("no/such/model", "starter")] == ["model_not_found", "no_tokenizer"]


def test_table_shows_percent(capsys: pytest.CaptureFixture[str], text: Path) -> None:
    options = ["--data", str(text), "--vocabulary", "1000", "--kind", "byte-bpe"]
    assert main(["language", "compare-tokenizers", *options]) == 0
    head, row = capsys.readouterr().out.splitlines()
    cells = dict(zip(head.split(), row.split()[1:], strict=True))
    metrics = measure_fertility(prepared(TokenizerKind.BYTE_BPE), HeldOutDocuments.from_corpus(CORPUS, Sample()))
    assert float(cells["tokens_per_word"]) == pytest.approx(metrics.tokens_per_word, abs=5e-4)
    assert float(cells["whole_words"]) == pytest.approx(100 * metrics.whole_words, abs=5e-3)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--data", "nowhere.txt"], "nowhere.txt is not a readable file"),
        (["--data", "sample", "--vocabulary", "10"], "1,000 to 64,000"),
        (["--data", "sample", "--held-out", "1"], "below 1"),
    ],
)
def test_reports_invalid_options(arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["language", "compare-tokenizers", *arguments]) == 2
    out, error = capsys.readouterr()
    assert out == ""
    assert message in error


@pytest.mark.slow
@pytest.mark.skipif("MRC_DATA" not in os.environ, reason="MRC_DATA names no folder with KorQuAD")
def test_korquad_larger_vocabulary_needs_fewer_tokens(capsys: pytest.CaptureFixture[str]) -> None:
    data = Path(os.environ["MRC_DATA"], "KorQuAD_v1.0_dev.json")
    options = ("--vocabulary", 2000, 8000, "--kind", "bpe", "--split", *PreTokenization)
    results = compare_tokenizers(capsys, "--data", data, *options)
    for split in PreTokenization:
        few, many = (results[f"bpe-{split}-{vocabulary}"] for vocabulary in (2000, 8000))
        assert (few["vocabulary_size"], many["vocabulary_size"]) == (2000, 8000)
        assert few["tokens_per_word"] > many["tokens_per_word"] > 1
        assert few["unknown_words"] > many["unknown_words"] > 0
        assert (many["recall"] == 1.0) == (split is PreTokenization.MORPHEMES)
