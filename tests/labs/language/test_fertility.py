"""Figures of a tokenizer, against counts by hand and by another way of counting."""

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

from mrc_workbench.data.text.corpora import held_out
from mrc_workbench.labs.language.comparison import Fertility, HeldOut, fertility
from mrc_workbench.models.language.tokenizer_training import Sample, Split, TokenizerKind, cuts
from mrc_workbench.models.language.tokenizers import PreparedTokenizer, load_tokenizer
from mrc_workbench.workbench.cli import main
from tests.labs.language.doubles import refused
from tests.models.language.test_tokenizer_training import CORPUS, SENTENCES, Documents, prepared

PIECES = ("[UNK]", "배", "##가", "##를", "고프다", "탔", "##다", "사과", ".", "먹었다")
FIVE = ["배가 고프다", "배를 탔다.", "사과를 먹었다", "항구 배", "배가\n고프다 탔다"]
# 배 ##가 고프다 | 배 ##를 탔 ##다 . | 사과 ##를 먹었다 | [UNK] 배 | 배 ##가 고프다 탔 ##다


def by_hand() -> PreparedTokenizer:
    tokenizer = Tokenizer(models.WordPiece({piece: row for row, piece in enumerate(PIECES)}, unk_token=PIECES[0]))
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    return PreparedTokenizer("by hand", tokenizer)


def test_sentences_by_hand() -> None:
    told = fertility(by_hand(), HeldOut.of(FIVE))
    assert (told.documents, told.words, told.characters, told.tokens) == (5, 11, 26, 18)
    assert told.pieces == 10
    assert told.tokens_per_word == 18 / 11
    assert told.tokens_per_character == 18 / 26
    assert told.unknown_rate == 1 / 18
    assert told.unknown_words == 1 / 11
    assert told.whole_words == 4 / 11  # 고프다, 먹었다, 배, 고프다; 항구 is one piece as well, and none knows which
    # 배|가, 배|를, 탔|다, 사과|를, 배|가, 탔|다; of morphemes there are 고프|다, twice, and 먹|었|다 besides
    assert (told.precision, told.recall, told.f1) == (1.0, 6 / 10, 12 / 16)
    assert told.document_tokens == {"0.05": 2.2, "0.25": 3, "0.5": 3, "0.75": 5, "0.95": 5, "1": 5}
    assert told.longer_than_512 == 0
    assert told.tokens_per_second > 0
    assert told.seconds_to_train is None
    told = fertility(by_hand(), HeldOut.of(["배 배"]))
    assert (told.precision, told.recall, told.f1) == (None, None, None)
    assert told.whole_words == 1


def test_special_pieces_count_as_what_a_model_reads() -> None:
    held = HeldOut.of([" ".join(["학교"] * words) for words in (1, 510, 511)])
    told = fertility(prepared(TokenizerKind.BPE), held)
    assert told.tokens == 1 + 510 + 511
    assert told.document_tokens["1"] == 513
    assert told.longer_than_512 == pytest.approx(1 / 3)


def counted(tokenizer: PreparedTokenizer, texts: Sequence[str]) -> dict[str, float]:
    """The counts of words by cutting each by itself, which parts at blanks and signs allow."""
    words = [word for text in texts for word in text.split()]
    cut = [tokenizer.tokenizer.encode(word, add_special_tokens=False) for word in words]
    tokens, unknown = sum(len(one.ids) for one in cut), tokenizer.tokenizer.token_to_id("[UNK]")
    return {
        "tokens_per_word": tokens / len(words),
        "tokens_per_character": tokens / len(re.sub(r"\s", "", "".join(texts))),
        "unknown_rate": sum(one.ids.count(unknown) for one in cut) / tokens,
        "unknown_words": sum(unknown in one.ids for one in cut) / len(words),
        "whole_words": sum(len(one.ids) == 1 and one.ids != [unknown] for one in cut) / len(words),
    }


@pytest.mark.parametrize("kind", TokenizerKind)
def test_figures_are_those_of_words_cut_one_by_one(kind: TokenizerKind) -> None:
    made = prepared(kind)
    texts = [*SENTENCES[:40], "뷁이 왔다 뷁뷁", " 쀍에서  걸었다 \n", "Café 123456km 🍎🍎"]
    told = asdict(fertility(made, HeldOut.of(texts)))
    for name, wanted in counted(made, texts).items():
        assert told[name] == pytest.approx(wanted), name
    assert (told["unknown_rate"] > 0) == (told["unknown_words"] > 0) == (kind is not TokenizerKind.BYTE_BPE)


@pytest.mark.parametrize("kind", [TokenizerKind.WORDPIECE, TokenizerKind.BPE])
def test_agreement_is_that_of_sets_of_places(kind: TokenizerKind) -> None:
    tokenizer = prepared(kind)
    held = HeldOut.of(["기차에서를 학교도서관에서 만났다를 보았다", "강아지와 시장바다사과를, 먹었다도"])
    hits = made = morphemes = 0
    for text, places in zip(held.texts, held.morphemes, strict=True):
        ends = [*accumulate(len(piece.letters) for piece in tokenizer.pieces(text))]  # in the text without its blanks
        place_of = [place for place, letter in enumerate(text) if letter != " "]
        inside = {
            place
            for place in (place_of[end] for end in ends[:-1])
            if re.fullmatch(r"\w\w", text[place - 1 : place + 1])
        }
        hits += len(inside & set(places.tolist()))
        made += len(inside)
        morphemes += len(places)
    told = fertility(tokenizer, held)
    assert 0 < hits < made
    assert told.precision == pytest.approx(hits / made)
    assert told.recall == pytest.approx(hits / morphemes)
    assert told.f1 == pytest.approx(2 / (made / hits + morphemes / hits))


@pytest.mark.parametrize("kind", TokenizerKind)
def test_who_is_given_morphemes_finds_them_all(kind: TokenizerKind) -> None:
    told = fertility(prepared(kind, Split.MORPHEMES), HeldOut.of(SENTENCES[:40]))
    assert told.recall == 1.0
    assert told.seconds_to_train is not None
    assert told.seconds_to_train > 0


def test_letters_in_bytes_and_overlapping_pieces_are_no_cuts() -> None:
    tokenizer = Tokenizer(
        models.BPE({letter: row for row, letter in enumerate(pre_tokenizers.ByteLevel.alphabet())}, [])
    )
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    told = fertility(PreparedTokenizer("bytes", tokenizer), HeldOut.of(["학교 왔다"]))
    assert (told.tokens, told.words) == (4 * 3 + 1, 2)  # the blank is a piece, too
    assert (told.precision, told.recall) == (0.5, 1.0)  # 학|교 is no morpheme, 왔|다 are two
    assert told.unknown_rate == 0
    spans = np.array([(0, 2), (1, 3), (3, 4), (5, 6), (6, 7), (7, 8)])
    assert cuts(spans, "가나다라 가.나").tolist() == [3]


def test_only_what_is_held_out_is_measured_on_and_of_much_of_it_a_part() -> None:
    sample = Sample(held_out=0.5, seed=3)
    whole = HeldOut.from_corpus(CORPUS, sample).texts
    assert [*whole] == [text for text in SENTENCES if held_out(text, 0.5, 3)]
    part = HeldOut.from_corpus(CORPUS, sample, most=CORPUS.characters // 10).texts
    assert set(part) < set(whole)
    assert len(part) == pytest.approx(100, abs=4 * 90**0.5)
    with refused("nothing_held_out"):
        HeldOut.from_corpus(Documents(("하나",)), Sample(held_out=0.0))


def test_a_special_piece_that_a_text_holds_is_cut_as_the_tokenizer_does() -> None:
    made = by_hand()
    made.tokenizer.add_special_tokens([AddedToken("[MASK]", special=True)])
    told = fertility(made, HeldOut.of(["배 [MASK]"]))
    assert isinstance(told, Fertility)
    assert (told.words, told.tokens) == (2, 2)


@pytest.fixture
def text(tmp_path: Path) -> Path:
    path = tmp_path / "sentences.txt"
    path.write_text("\n".join(SENTENCES), encoding="utf-8")
    return path


def told(capsys: pytest.CaptureFixture[str], *arguments: object, status: int = 0) -> dict[str, dict[str, Any]]:
    assert main(["language", "compare-tokenizers", "--json", *map(str, arguments)]) == status
    found: dict[str, dict[str, Any]] = json.loads(capsys.readouterr().out)["tokenizers"]
    return found


def test_all_kinds_are_measured_and_kept(capsys: pytest.CaptureFixture[str], text: Path, tmp_path: Path) -> None:
    found = told(capsys, "--data", text, "--vocabulary", 1000, "--out", tmp_path / "out")
    assert [*found] == [*TokenizerKind]
    held = HeldOut.from_corpus(CORPUS, Sample())
    for kind, figures in found.items():
        kept = load_tokenizer(tmp_path / "out" / f"{kind}-words-1000")
        again = asdict(fertility(kept, held))
        assert figures["documents"] == len(held.texts)
        assert figures["share"] == 1.0
        for name in ("tokens_per_word", "unknown_rate", "whole_words", "f1", "document_tokens", "pieces"):
            assert figures[name] == again[name], name


@pytest.mark.slow
def test_curves_have_a_point_for_each_vocabulary_and_split(capsys: pytest.CaptureFixture[str], text: Path) -> None:
    asked = ("--vocabulary", 1000, 1200, "--vocabulary", 1000, "--kind", "bpe", "--split", "words", "morphemes")
    found = told(capsys, "--data", text, *asked)
    wanted = [f"bpe-{split}-{vocabulary}" for split in Split for vocabulary in (1000, 1200)]
    assert [*found] == wanted
    assert [found[name]["vocabulary"] for name in wanted] == [1000, 1200] * 2
    assert [found[name]["split"] for name in wanted] == ["words"] * 2 + ["morphemes"] * 2
    assert found["bpe-morphemes-1000"]["recall"] == 1.0


def test_tokenizers_of_models_are_measured_beside_them(
    capsys: pytest.CaptureFixture[str], text: Path, tmp_path: Path
) -> None:
    model = tmp_path / "model"
    model.mkdir()
    (model / "config.json").write_text("{}")
    of_model = Tokenizer.from_str(PLAIN)
    of_model.enable_truncation(3)  # as some are saved: texts are measured whole all the same
    of_model.save(str(model / "tokenizer.json"))
    asked = ("--data", text, "--vocabulary", 1000, "--kind", "wordpiece")
    found = told(capsys, *asked, "--against", model, "--against", "no/such/model", "--against", "starter", status=1)
    assert [*found] == ["wordpiece", str(model), "no/such/model", "starter"]
    assert found[str(model)]["tokens_per_word"] == 1.0
    assert found[str(model)]["unknown_rate"] == found[str(model)]["unknown_words"] == 1.0
    assert found[str(model)]["seconds_to_train"] is None
    assert "no tokenizer" in str(found["starter"]["error"])
    assert [found[name]["code"] for name in ("no/such/model", "starter")] == ["model_not_found", "no_tokenizer"]


PLAIN = json.dumps(
    {
        "version": "1.0",
        "added_tokens": [],
        "pre_tokenizer": {"type": "WhitespaceSplit"},
        "model": {"type": "WordLevel", "vocab": {"?": 0}, "unk_token": "?"},
    }
)


def test_a_table_tells_shares_in_percent(capsys: pytest.CaptureFixture[str], text: Path) -> None:
    assert (
        main(["language", "compare-tokenizers", "--data", str(text), "--vocabulary", "1000", "--kind", "byte-bpe"]) == 0
    )
    head, row = capsys.readouterr().out.splitlines()
    cells = dict(zip(head.split(), row.split()[1:], strict=True))
    figures = fertility(prepared(TokenizerKind.BYTE_BPE), HeldOut.from_corpus(CORPUS, Sample()))
    assert float(cells["tokens_per_word"]) == pytest.approx(figures.tokens_per_word, abs=5e-4)
    assert float(cells["whole_words"]) == pytest.approx(100 * figures.whole_words, abs=5e-3)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--data", "nowhere.txt"], "nowhere.txt is no file"),
        (["--data", "TEXT", "--vocabulary", "10"], "1,000 to 64,000"),
        (["--data", "TEXT", "--held-out", "1"], "below 1"),
    ],
)
def test_what_cannot_be_done_is_told(
    arguments: list[str], said: str, capsys: pytest.CaptureFixture[str], text: Path
) -> None:
    assert main(["language", "compare-tokenizers", *(str(text) if one == "TEXT" else one for one in arguments)]) == 2
    out, error = capsys.readouterr()
    assert out == ""
    assert said in error


@pytest.mark.slow
@pytest.mark.skipif("MRC_DATA" not in os.environ, reason="MRC_DATA names no folder with KorQuAD")
def test_of_korquad_more_pieces_cut_less_and_marked_morphemes_are_found(capsys: pytest.CaptureFixture[str]) -> None:
    data = Path(os.environ["MRC_DATA"], "KorQuAD_v1.0_dev.json")
    found = told(capsys, "--data", data, "--vocabulary", 2000, 8000, "--kind", "bpe", "--split", *Split)
    for split in Split:
        few, many = (found[f"bpe-{split}-{vocabulary}"] for vocabulary in (2000, 8000))
        assert (few["pieces"], many["pieces"]) == (2000, 8000)
        assert few["tokens_per_word"] > many["tokens_per_word"] > 1
        assert few["unknown_words"] > many["unknown_words"] > 0
        assert (many["recall"] == 1.0) == (split is Split.MORPHEMES)
