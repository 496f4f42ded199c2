"""Tokens and their characters for several tokenizers, and masked predictions compared with transformers."""

import json
from pathlib import Path

import numpy as np
import pytest

from mrc_workbench.data.text.corpora import LanguageError
from mrc_workbench.labs.language import network
from mrc_workbench.labs.language.network import SentenceToken, TransformerModel, fill_masks, load_masked_lm
from mrc_workbench.models.files import ModelError
from mrc_workbench.models.language.tokenizer_training import BOUNDARY
from mrc_workbench.models.sources import STARTER, ModelSource, find_model
from tests.doubles import raises_failure
from tests.labs.language.tiny_bert import PIECES, SPECIALS, write_model

pytestmark = pytest.mark.slow
TEXT = "항구에서 [MASK]를 탔다"
MASK_INDEX = 3  # [CLS] 항구 ##에서 [MASK]
# after a mask, WordPiece starts a new word, and "를" is not in the vocabulary
TOKENS = ["[CLS]", "항구", "##에서", "[MASK]", "[UNK]", "탔", "##다", "[SEP]"]


def make_network(vocabulary: list[str], **trained: str) -> TransformerModel:
    """Return a network with only a tokenizer of these tokens, with spaces as in SentencePiece."""
    from tokenizers import Tokenizer, models, pre_tokenizers, processors
    from transformers import PreTrainedTokenizerFast

    pieces = [(piece, 0.0 if piece in SPECIALS else -1.0) for piece in (*SPECIALS, *vocabulary)]
    tokenizer = Tokenizer(models.Unigram(pieces, unk_id=1, byte_fallback=False))
    boundary = pre_tokenizers.Split(BOUNDARY, "removed")
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([boundary, pre_tokenizers.Metaspace(prepend_scheme="first")])
    tokenizer.post_processor = processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2))
    cut = PreTrainedTokenizerFast(tokenizer_object=tokenizer, unk_token="[UNK]", pad_token="[PAD]", trained=trained)  # noqa: S106
    return TransformerModel("made", None, cut, 32)


def test_space_token_covers_no_character() -> None:
    tokens = make_network(["▁", "▁배", "를", "탔다"]).pieces("배를 탔다")
    assert tokens == [
        SentenceToken("[CLS]", 0, 0, -1),
        SentenceToken("배", 0, 1, 0),
        SentenceToken("를", 1, 2, 0),
        SentenceToken("▁", 3, 3, 1),
        SentenceToken("탔다", 3, 5, 1),
        SentenceToken("[SEP]", 0, 0, -1),
    ]


def test_unknown_token_keeps_tokenizer_name() -> None:
    tokens = make_network(["▁배", "▁"]).pieces("쀍 배")
    words = [token for token in tokens if not token.is_special and token.end > token.start]
    assert words == [SentenceToken("[UNK]", 0, 1, 0), SentenceToken("배", 2, 3, 1)]


def test_morpheme_tokenizer_has_offsets_of_original_sentence() -> None:
    """Without marked morphemes, the tokenizer uses the longer tokens."""
    pieces = ["▁한강", "에서", "▁한강에서", "▁먹", "었", "다", "▁먹었다"]
    tokens = make_network(pieces, split="morphemes").pieces("한강에서 먹었다")
    spans = [(token.text, token.start, token.end, token.word) for token in tokens if not token.is_special]
    assert spans == [("한강", 0, 2, 0), ("에서", 2, 4, 0), ("먹", 5, 6, 1), ("었", 6, 7, 1), ("다", 7, 8, 1)]
    tokens = make_network(pieces, split="words").pieces("한강에서 먹었다")
    assert [token.text for token in tokens][1:-1] == ["한강에서", "먹었다"]


def reference_probabilities(folder: Path, tokens: list[str]) -> np.ndarray:
    """Return the softmax of plain transformers for tokens of `PIECES`, `(n_tokens, n_pieces)`."""
    import torch
    from transformers import BertForMaskedLM

    token_ids = [(SPECIALS + PIECES).index(token) for token in tokens]
    with torch.inference_mode():
        logits = BertForMaskedLM.from_pretrained(folder).eval()(torch.tensor([token_ids])).logits[0]
    exponentials = np.exp(logits.numpy().astype(np.float64))
    return exponentials / exponentials.sum(axis=1, keepdims=True)


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> ModelSource:
    return write_model(tmp_path_factory.mktemp("masked"))


@pytest.fixture(scope="module")
def masked(source: ModelSource) -> TransformerModel:
    return load_masked_lm(source)


@pytest.fixture(scope="module")
def expected_probabilities(source: ModelSource) -> np.ndarray:
    return reference_probabilities(Path(source.reference), TOKENS)[MASK_INDEX]


def test_probabilities_match_transformers(masked: TransformerModel, expected_probabilities: np.ndarray) -> None:
    predicted = network.masked_probabilities(masked, TEXT)
    assert predicted.shape == (1, len(SPECIALS + PIECES))
    assert predicted[0] == pytest.approx(expected_probabilities, abs=1e-6)
    assert predicted.sum(axis=1) == pytest.approx([1.0], abs=1e-12)


def test_fills_each_mask_with_top_tokens(masked: TransformerModel, expected_probabilities: np.ndarray) -> None:
    ((first, second, third),) = fill_masks(masked, TEXT, k=3)
    best = np.argsort(-expected_probabilities)[:3]
    assert [first.token, second.token, third.token] == [(SPECIALS + PIECES)[index] for index in best]
    assert [first.probability, second.probability] == pytest.approx(expected_probabilities[best[:2]], abs=1e-6)
    both = reference_probabilities(Path(masked.reference), ["[CLS]", "[MASK]", "[MASK]", "[SEP]"])
    assert network.masked_probabilities(masked, "[MASK] [MASK]") == pytest.approx(both[1:3], abs=1e-6)


def test_word_probability_sums_its_tokens(source: ModelSource, expected_probabilities: np.ndarray) -> None:
    """배 starts a word, ##배 continues one."""
    predictions = network.predict_by_checkpoint([source], TEXT)
    both = [(SPECIALS + PIECES).index(piece) for piece in ("배", "##배")]
    assert predictions.word_probability(" 배 ") == pytest.approx([expected_probabilities[both].sum()], abs=1e-6)


def test_rejects_word_of_several_tokens(source: ModelSource) -> None:
    predictions = network.predict_by_checkpoint([source], TEXT)
    with raises_failure("not_one_piece", LanguageError, match="배 · ##를"):
        predictions.word_probability("배를")
    with pytest.raises(LanguageError, match="into several tokens"):
        predictions.word_probability("쀍")  # an unknown token


def test_predicts_with_each_checkpoint(tmp_path: Path) -> None:
    folders = [tmp_path / f"step-{step}" for step in (1, 2)]
    fractions: list[float] = []
    sources = [write_model(folder, seed=seed) for seed, folder in enumerate(folders)]
    predictions = network.predict_by_checkpoint(sources, TEXT, fractions.append)
    references = [reference_probabilities(folder, TOKENS)[MASK_INDEX] for folder in folders]
    expected = [item[len(SPECIALS) + PIECES.index("서울")] for item in references]
    assert predictions.word_probability("서울") == pytest.approx(expected, abs=1e-6)
    assert expected[0] != pytest.approx(expected[1], abs=1e-4)
    assert fractions == [0.5, 1.0]
    words = [(SPECIALS + PIECES)[index] for index in np.argsort(-references[1])]
    assert predictions.top_words(3) == [item for item in words if item.isalnum()][:3]


def test_rejects_starter_and_text_without_mask_or_with_many(masked: TransformerModel) -> None:
    for text, code in (("배를 탔다", "no_mask"), ("[MASK] " * (network.MAX_MASKS + 1), "many_masks")):
        with raises_failure(code):
            fill_masks(masked, text)
    with raises_failure("no_layers"):
        load_masked_lm(find_model(STARTER))


def test_rejects_model_without_mlm_head(tmp_path: Path) -> None:
    bare = write_model(tmp_path, head=False)
    for architecture in ("BertModel", "BertForMaskedLM"):
        path = tmp_path / "config.json"
        path.write_text(json.dumps(json.loads(path.read_text()) | {"architectures": [architecture]}))
        with raises_failure("no_mlm_head") as caught:
            load_masked_lm(bare)
        assert caught.value.details == {"model": str(tmp_path)}


def test_reports_damaged_model_by_name(tmp_path: Path) -> None:
    source = write_model(tmp_path)
    (tmp_path / "model.safetensors").unlink()
    with raises_failure("unloadable", ModelError, match=tmp_path.name):
        load_masked_lm(source)
