"""Pieces and their letters, by tokenizers of several makes; and what transformers itself expects at a masked place."""

import json
from pathlib import Path

import numpy as np
import pytest

from mrc_workbench.data.text.corpora import LanguageError
from mrc_workbench.labs.language.network import MOST_MASKS, Network, Piece, course, fill, load_masked, probabilities
from mrc_workbench.models.files import ModelError
from mrc_workbench.models.language.tokenizer_training import BOUNDARY
from mrc_workbench.models.sources import STARTER, ModelSource, find_model
from tests.labs.language.doubles import refused
from tests.labs.language.tiny_bert import PIECES, SPECIALS, written

pytestmark = pytest.mark.slow


def network(vocabulary: list[str], **trained: str) -> Network:
    """A network that only cuts, by whole pieces, with spaces written as SentencePiece writes them."""
    from tokenizers import Tokenizer, models, pre_tokenizers, processors
    from transformers import PreTrainedTokenizerFast

    pieces = [(piece, 0.0 if piece in SPECIALS else -1.0) for piece in (*SPECIALS, *vocabulary)]
    tokenizer = Tokenizer(models.Unigram(pieces, unk_id=1, byte_fallback=False))
    boundary = pre_tokenizers.Split(BOUNDARY, "removed")
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([boundary, pre_tokenizers.Metaspace(prepend_scheme="first")])
    tokenizer.post_processor = processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2))
    cut = PreTrainedTokenizerFast(tokenizer_object=tokenizer, unk_token="[UNK]", pad_token="[PAD]", trained=trained)  # noqa: S106
    return Network("made", None, cut, 32)


def test_a_piece_that_is_only_a_space_holds_no_letter() -> None:
    found = network(["▁", "▁배", "를", "탔다"]).pieces("배를 탔다")
    assert found == [
        Piece("[CLS]", 0, 0, -1),
        Piece("배", 0, 1, 0),
        Piece("를", 1, 2, 0),
        Piece("▁", 3, 3, 1),
        Piece("탔다", 3, 5, 1),
        Piece("[SEP]", 0, 0, -1),
    ]


def test_what_the_tokenizer_does_not_know_is_called_as_it_calls_it() -> None:
    found = network(["▁배", "▁"]).pieces("쀍 배")
    assert [(one.text, one.start, one.end, one.word) for one in found if not one.special and one.end > one.start] == [
        ("[UNK]", 0, 1, 0),
        ("배", 2, 3, 1),
    ]


def test_a_tokenizer_of_morphemes_is_given_them_and_tells_letters_of_the_sentence_as_it_stands() -> None:
    """Without the marks 에서 and 먹었 would be cut as the longer pieces are."""
    pieces = ["▁한강", "에서", "▁한강에서", "▁먹", "었", "다", "▁먹었다"]
    found = network(pieces, split="morphemes").pieces("한강에서 먹었다")
    spans = [(one.text, one.start, one.end, one.word) for one in found if not one.special]
    assert spans == [("한강", 0, 2, 0), ("에서", 2, 4, 0), ("먹", 5, 6, 1), ("었", 6, 7, 1), ("다", 7, 8, 1)]
    assert [one.text for one in network(pieces, split="words").pieces("한강에서 먹었다")][1:-1] == [
        "한강에서",
        "먹었다",
    ]


TEXT = "항구에서 [MASK]를 탔다"
PLACE = 3  # [CLS] 항구 ##에서 [MASK]


def theirs(folder: Path, tokens: list[str]) -> np.ndarray:
    """The softmax of plain transformers over numbers counted by hand, `(n_tokens, n_pieces)`."""
    import torch
    from transformers import BertForMaskedLM

    numbers = [(SPECIALS + PIECES).index(token) for token in tokens]
    with torch.inference_mode():
        logits = BertForMaskedLM.from_pretrained(folder).eval()(torch.tensor([numbers])).logits[0]
    shares = np.exp(logits.numpy().astype(np.float64))
    return shares / shares.sum(axis=1, keepdims=True)


# a word piece that follows a masked place begins a word: "를" is none of the pieces
TOKENS = ["[CLS]", "항구", "##에서", "[MASK]", "[UNK]", "탔", "##다", "[SEP]"]


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> ModelSource:
    return written(tmp_path_factory.mktemp("masked"))


@pytest.fixture(scope="module")
def masked(source: ModelSource) -> Network:
    return load_masked(source)


@pytest.fixture(scope="module")
def wanted(source: ModelSource) -> np.ndarray:
    return theirs(Path(source.reference), TOKENS)[PLACE]


def test_probabilities_are_those_of_transformers_and_sum_to_1(masked: Network, wanted: np.ndarray) -> None:
    found = probabilities(masked, TEXT)
    assert found.shape == (1, len(SPECIALS + PIECES))
    assert found[0] == pytest.approx(wanted, abs=1e-6)
    assert found.sum(axis=1) == pytest.approx([1.0], abs=1e-12)


def test_fills_each_masked_place_with_the_likeliest_pieces_first(masked: Network, wanted: np.ndarray) -> None:
    ((first, second, third),) = fill(masked, TEXT, k=3)
    best = np.argsort(-wanted)[:3]
    assert [first.piece, second.piece, third.piece] == [(SPECIALS + PIECES)[place] for place in best]
    assert [first.probability, second.probability] == pytest.approx(wanted[best[:2]], abs=1e-6)
    both = theirs(Path(masked.reference), ["[CLS]", "[MASK]", "[MASK]", "[SEP]"])
    assert probabilities(masked, "[MASK] [MASK]") == pytest.approx(both[1:3], abs=1e-6)


def test_a_word_has_the_probability_of_all_pieces_that_read_so(source: ModelSource, wanted: np.ndarray) -> None:
    """배 begins a word, ##배 goes on with one."""
    found = course([source], TEXT)
    both = [(SPECIALS + PIECES).index(piece) for piece in ("배", "##배")]
    assert found.of(" 배 ") == pytest.approx([wanted[both].sum()], abs=1e-6)


def test_a_word_of_several_pieces_is_told_with_its_pieces(source: ModelSource) -> None:
    found = course([source], TEXT)
    with pytest.raises(LanguageError, match="배 · ##를") as told:
        found.of("배를")
    assert told.value.code == "not_one_piece"
    with pytest.raises(LanguageError, match="no single piece"):
        found.of("쀍")  # an unknown piece is no word


def test_a_course_has_the_probability_by_one_model_after_the_other(tmp_path: Path) -> None:
    folders = [tmp_path / f"step-{step}" for step in (1, 2)]
    shares: list[float] = []
    found = course([written(folder, seed=seed) for seed, folder in enumerate(folders)], TEXT, shares.append)
    every = [theirs(folder, TOKENS)[PLACE] for folder in folders]
    wanted = [one[len(SPECIALS) + PIECES.index("서울")] for one in every]
    assert found.of("서울") == pytest.approx(wanted, abs=1e-6)
    assert wanted[0] != pytest.approx(wanted[1], abs=1e-4)
    assert shares == [0.5, 1.0]
    words = [(SPECIALS + PIECES)[place] for place in np.argsort(-every[1])]
    assert found.likeliest(3) == [one for one in words if one.isalnum()][:3]


def test_a_text_needs_a_masked_place_and_not_many(masked: Network) -> None:
    for text, code in (("배를 탔다", "no_mask"), ("[MASK] " * (MOST_MASKS + 1), "many_masks")):
        with refused(code):
            fill(masked, text)


def test_a_model_without_the_head_is_refused_also_where_it_says_that_it_has_one(tmp_path: Path) -> None:
    bare = written(tmp_path, head=False)
    for architecture in ("BertModel", "BertForMaskedLM"):
        path = tmp_path / "config.json"
        path.write_text(json.dumps(json.loads(path.read_text()) | {"architectures": [architecture]}))
        with refused("no_mlm_head") as told:
            load_masked(bare)
        assert told.value.details == {"model": str(tmp_path)}


def test_a_starter_has_no_layers() -> None:
    with refused("no_layers"):
        load_masked(find_model(STARTER))


def test_a_damaged_model_is_told_by_its_name(tmp_path: Path) -> None:
    source = written(tmp_path)
    (tmp_path / "model.safetensors").unlink()
    with pytest.raises(ModelError, match=tmp_path.name) as told:
        load_masked(source)
    assert told.value.code == "unloadable"
