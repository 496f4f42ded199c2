"""`mrc language tokenizers`: figures for people, and for programs."""

import json
import os
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
from tokenizers import Tokenizer

from mrc_workbench.labs.language.comparison import HeldOut, fertility
from mrc_workbench.models.language.tokenizer_training import Sample, Split, TokenizerKind
from mrc_workbench.models.language.tokenizers import load_tokenizer
from mrc_workbench.workbench.cli import main
from tests.models.language.test_tokenizer_training import CORPUS, SENTENCES, prepared


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
