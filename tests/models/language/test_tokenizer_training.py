"""Tokenizers of four kinds: training, files for other libraries, and merges of a word."""

import json
import random
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from itertools import product
from pathlib import Path

import pytest
from tokenizers import Tokenizer, models, pre_tokenizers

from mrc_workbench.data.text.corpora import MAX_DOCUMENT_CHARACTERS, Corpus, is_held_out
from mrc_workbench.models.language import tokenizer_training as training
from mrc_workbench.models.language import tokenizers
from mrc_workbench.models.language.tokenizer_training import BOUNDARY, SPECIAL, PreTokenization, Sample, TokenizerKind
from tests.doubles import raises_failure

NOUNS = ("학교", "도서관", "시장", "바다", "강아지", "사과", "나무", "편지", "노래", "기차")
VERBS = ("갔다", "왔다", "보았다", "먹었다", "걸었다", "불렀다", "만났다", "잤다", "Café", "3.5km")
TRIPLES = product(NOUNS, NOUNS, VERBS)
SENTENCES = [f"{first}에서 {second}를 {verb}. {first}와 {second}도, “{verb}”!" for first, second, verb in TRIPLES]
WORDS = ("학교에서", "강아지도서관", "노래를불렀다", "뷁a", "사 과")


@dataclass(frozen=True)
class Documents:
    """A corpus of given documents."""

    texts: tuple[str, ...]
    name: str = "documents"
    fingerprint: str = "given"

    @property
    def characters(self) -> int:
        return sum(map(len, self.texts))

    def documents(self) -> Iterator[str]:
        return iter(self.texts)


CORPUS = Documents(tuple(SENTENCES))


def train(corpus: Corpus, options: training.TokenizerOptions) -> training.TrainedTokenizer:
    with training.gather_documents(corpus, options.sample) as documents:
        return training.train_on(documents, options.kind, options.vocabulary)


@cache
def trained(kind: TokenizerKind, split: PreTokenization = PreTokenization.WORDS) -> training.TrainedTokenizer:
    return train(CORPUS, training.TokenizerOptions(kind, 1_000, Sample(split=split)))


@cache
def prepared(kind: TokenizerKind, split: PreTokenization = PreTokenization.WORDS) -> tokenizers.PreparedTokenizer:
    return tokenizers.PreparedTokenizer.from_trained(trained(kind, split))


def test_trains_on_all_documents_not_held_out() -> None:
    sample = Sample(held_out=0.3, seed=5)
    with training.gather_documents(CORPUS, sample) as documents:
        learned = [line.rstrip("\n") for line in documents.lines()]
    assert learned == [text for text in SENTENCES if not is_held_out(text, 0.3, 5)]
    assert (documents.documents, documents.characters) == (len(learned), sum(map(len, learned)))
    assert documents.fraction == 1.0
    assert not documents.path.exists()


def test_samples_documents_of_large_corpus() -> None:
    sample = Sample(held_out=0.0, max_characters=CORPUS.characters // 4)
    with training.gather_documents(CORPUS, sample) as documents:
        assert documents.fraction == pytest.approx(0.25)
        assert documents.documents == pytest.approx(250, abs=4 * (1000 * 0.25 * 0.75) ** 0.5)


def test_replaces_rare_characters_by_spaces() -> None:
    with training.gather_documents(Documents(("가가가나나다", "가 나나 라\n마")), Sample(held_out=0.0)) as documents:
        assert documents.alphabet == ("가", "나", " ", "다", "라", "마")
        assert [*documents.lines(3)] == ["가가가나나 \n", "가 나나    \n"]
        assert [*documents.lines()] == ["가가가나나다\n", "가 나나 라 마\n"]


def test_rejects_invalid_options() -> None:
    for vocabulary in (999, 64_001):
        with raises_failure("vocabulary"):
            training.TokenizerOptions(vocabulary=vocabulary)
    with raises_failure("held_out"):
        Sample(held_out=1.0)
    with raises_failure("nothing_to_learn"), training.gather_documents(Documents(("하나",)), Sample(held_out=0.999)):
        pass


@pytest.mark.slow
@pytest.mark.parametrize("split", PreTokenization)
@pytest.mark.parametrize("kind", TokenizerKind)
def test_libraries_load_saved_tokenizer(kind: TokenizerKind, split: PreTokenization, tmp_path: Path) -> None:
    saved = trained(kind, split)
    saved.save(tmp_path / "kept")
    saved.save(tmp_path / "kept")  # and again over it
    reloaded = Tokenizer.from_file(str(tmp_path / "kept" / "tokenizer.json"))
    again = tokenizers.load_tokenizer(tmp_path / "kept")
    assert [reloaded.id_to_token(number) for number in range(5)] == [*SPECIAL]
    assert 5 < reloaded.get_vocab_size() <= 1_000
    assert again.marks_morphemes == (split is PreTokenization.MORPHEMES)
    assert (again.trained["kind"], again.trained["fraction"], again.name) == (kind, 1.0, "kept")
    for text in again.prepared(SENTENCES[:50]):
        encoding = reloaded.encode(text)
        assert encoding.ids == saved.tokenizer.encode(text).ids
        assert encoding.tokens[0] == "[CLS]"
        assert encoding.tokens[-1] == "[SEP]"
        assert "[UNK]" not in encoding.tokens
    pair = reloaded.encode("학교에서", "바다를")
    ends = [index for index, piece in enumerate(pair.tokens) if piece == "[SEP]"]
    assert len(ends) == 2
    assert pair.type_ids == [0] * (ends[0] + 1) + [1] * (ends[1] - ends[0])


@pytest.mark.slow
@pytest.mark.parametrize("kind", TokenizerKind)
def test_transformers_keeps_training_metadata(kind: TokenizerKind, tmp_path: Path) -> None:
    from transformers import AutoTokenizer, PreTrainedTokenizerFast

    prepared_tokenizer = trained(kind, PreTokenization.MORPHEMES)
    prepared_tokenizer.save(tmp_path / "made")
    loaded = AutoTokenizer.from_pretrained(str(tmp_path / "made"))
    assert isinstance(loaded, PreTrainedTokenizerFast)
    names = (loaded.pad_token, loaded.unk_token, loaded.cls_token, loaded.sep_token, loaded.mask_token)
    assert names == SPECIAL
    assert [loaded.convert_tokens_to_ids(name) for name in names] == [0, 1, 2, 3, 4]
    for text in training.mark_morphemes(SENTENCES[:20]):
        assert loaded(text)["input_ids"] == prepared_tokenizer.tokenizer.encode(text).ids
    assert loaded("학교에서", "바다를")["token_type_ids"][-1] == 1
    loaded.save_pretrained(str(tmp_path / "model"))  # as it is saved with a model
    again = tokenizers.load_tokenizer(tmp_path / "model")
    assert again.marks_morphemes
    assert again.pieces(SENTENCES[3]) == prepared(kind, PreTokenization.MORPHEMES).pieces(SENTENCES[3])


@pytest.mark.parametrize("kind", TokenizerKind)
def test_decoding_restores_text(kind: TokenizerKind) -> None:
    for split in PreTokenization:
        prepared_tokenizer = prepared(kind, split)
        for text in SENTENCES[:30]:
            (given,) = prepared_tokenizer.prepared([text])
            assert given.replace(BOUNDARY, "") == text
            decoded = prepared_tokenizer.tokenizer.decode(prepared_tokenizer.tokenizer.encode(given).ids)
            assert decoded.replace(" ", "") == text.replace(" ", "")
            if kind is not TokenizerKind.WORDPIECE:  # which forgets the blanks around signs
                assert decoded == text
            assert "".join(piece.text for piece in prepared_tokenizer.pieces(text)) == text.replace(" ", "")


@pytest.mark.parametrize("kind", TokenizerKind)
def test_pieces_do_not_cross_marked_morphemes(kind: TokenizerKind) -> None:
    texts = [*dict.fromkeys(SENTENCES)][:100]
    morphemes = training.morpheme_boundaries(texts)
    cuts = prepared(kind, PreTokenization.MORPHEMES).cut(texts, morphemes)
    for text, boundaries, cut in zip(texts, morphemes, cuts, strict=True):
        assert len(boundaries) > 2
        assert set(boundaries.tolist()) <= set(cut.spans[:, 0].tolist())
        assert text.count(" ") >= 3


def test_marks_morphemes_only_inside_words() -> None:
    marked = training.mark_morphemes(["세종대왕은 갔다.", "배가 🍎를 먹었다", "", "3.5km를"])
    visible = [text.replace(BOUNDARY, "|") for text in marked]
    assert visible == ["세종|대왕|은 갔|다.", "배|가 🍎를 먹|었|다", "", "3.5|km|를"]
    unmarked = training.mark_morphemes(["배가"])
    assert training.mark_morphemes([f"배{BOUNDARY}가"]) == training.mark_morphemes(["배가"]) == unmarked


@pytest.mark.parametrize("kind", [TokenizerKind.WORDPIECE, TokenizerKind.BPE, TokenizerKind.BYTE_BPE])
def test_training_is_deterministic(kind: TokenizerKind) -> None:
    assert trained(kind).tokenizer.to_str() == trained.__wrapped__(kind).tokenizer.to_str()


def test_lowercase_is_optional() -> None:
    capital = "Café CAFÉ"
    for lowercase, expected in ((True, "cafécafé"), (False, "CaféCAFÉ")):
        sample = Sample(held_out=0.0, lowercase=lowercase)
        with training.gather_documents(Documents((capital,) * 3), sample) as documents:
            tokenizer = training.train_on(documents, TokenizerKind.BPE, 1_000).tokenizer
        pieces = tokenizer.encode(capital, add_special_tokens=False).tokens
        assert "".join(pieces).replace("▁", "") == expected


@pytest.mark.slow
def test_tokenizes_longest_document() -> None:
    text = "학교" * (MAX_DOCUMENT_CHARACTERS // 2)
    assert "".join(piece.text for piece in prepared(TokenizerKind.BPE).pieces(text)) == text


@pytest.mark.parametrize("split", PreTokenization)
@pytest.mark.parametrize("kind", TokenizerKind)
@pytest.mark.parametrize("text", ["하나", "a", "배가 배가", BOUNDARY, "\N{COMBINING ACUTE ACCENT}"])
def test_trains_on_tiny_corpus(text: str, kind: TokenizerKind, split: PreTokenization) -> None:
    options = training.TokenizerOptions(kind, 1_000, Sample(split=split, held_out=0.0))
    trained_tokenizer = train(Documents((text,)), options)
    assert [trained_tokenizer.tokenizer.id_to_token(number) for number in range(5)] == [*SPECIAL]
    assert trained_tokenizer.tokenizer.encode("").tokens == ["[CLS]", "[SEP]"]
    assert tokenizers.PreparedTokenizer.from_trained(trained_tokenizer).pieces("") == []


def names_of(tokenizer: tokenizers.PreparedTokenizer, word: str, cut: Tokenizer) -> list[str]:
    (given,) = tokenizer.prepared([word])
    names = cut.encode(given, add_special_tokens=False).tokens
    return [tokenizers.readable(name, in_bytes=tokenizers.is_of_bytes(tokenizer)) for name in names]


def merges_of(tokenizer: tokenizers.PreparedTokenizer) -> list[tuple[str, str]]:
    return [(first, second) for first, second in tokenizer.content["model"]["merges"]]


def cut_after(word: str, tokenizer: tokenizers.PreparedTokenizer, merges: int) -> list[str]:
    """What the library makes of a word by the first so many merges."""
    content = tokenizer.content
    model = {**content["model"], "merges": merges_of(tokenizer)[:merges]}
    return names_of(tokenizer, word, Tokenizer.from_str(json.dumps({**content, "model": model})))


def after(word: str, tokenizer: tokenizers.PreparedTokenizer, merges: int) -> list[str]:
    steps = [step for step in tokenizers.merge_steps(word, tokenizer) if step.merges <= merges]
    return [*steps[-1].pieces]


@pytest.mark.slow
@pytest.mark.parametrize("split", PreTokenization)
@pytest.mark.parametrize("kind", [TokenizerKind.BPE, TokenizerKind.BYTE_BPE])
def test_merge_steps_equal_truncated_tokenizer(kind: TokenizerKind, split: PreTokenization) -> None:
    tokenizer = prepared(kind, split)
    in_bytes = kind is TokenizerKind.BYTE_BPE
    every = [tuple(tokenizers.readable(item, in_bytes=in_bytes) for item in pair) for pair in merges_of(tokenizer)]
    assert tokenizers.is_of_bytes(tokenizer) == in_bytes
    for word in WORDS:
        history = tokenizers.merge_steps(word, tokenizer)
        merge_counts = {0, len(every)} | {item.merges + more for item in history for more in (-1, 0)}
        for merge_count in sorted(merge_counts - {-1}):
            assert cut_after(word, tokenizer, merge_count) == after(word, tokenizer, merge_count)
        assert all(every[item.merges - 1] == item.pair for item in history[1:])
    assert max(len(tokenizers.merge_steps(word, tokenizer)) for word in WORDS) > 3
    rng = random.Random(0)
    for _ in range(40):
        word = "".join(rng.choices([*NOUNS, *VERBS, "에서", "를", "와", "도"], k=3))
        assert [*tokenizers.merge_steps(word, tokenizer)[-1].pieces] == names_of(tokenizer, word, tokenizer.tokenizer)


def test_displays_bytes_as_text_if_decodable() -> None:
    tokenizer = prepared(TokenizerKind.BYTE_BPE)
    assert after("사", tokenizer, 0) == ["▁", "<EC>", "<82>", "<AC>"]
    assert after("사과", tokenizer, len(merges_of(tokenizer))) == ["▁사과"]
    assert after("a é", tokenizer, 0) == ["▁", "a", "▁", "<C3>", "<A9>"]
    bytes_ = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    for text in ("".join(map(chr, range(0x250))), "가힣🍎한"):
        ((characters, _),) = bytes_.pre_tokenize_str(text)
        assert tokenizers.readable(characters, in_bytes=True) == text.replace(" ", "▁")


def handmade(pieces: list[str], merges: list[tuple[str, str]], **options: bool) -> tokenizers.PreparedTokenizer:
    model = models.BPE({name: number for number, name in enumerate(pieces)}, merges, **options)
    return tokenizers.PreparedTokenizer("by hand", Tokenizer(model))


def test_merge_steps_match_steps_by_hand() -> None:
    tokenizer = handmade(["a", "b", "ab"], [("a", "b")], ignore_merges=True)  # finds whole words first
    assert [after("ab", tokenizer, count) for count in (0, 1)] == [["a", "b"], ["ab"]]
    steps = tokenizers.merge_steps("aaaaa", handmade(["a", "aa"], [("a", "a")]))  # from left to right
    assert [step.pieces for step in steps] == [("a",) * 5, ("aa", "aa", "a")]
    # `abc` is made of `ab` and `c` first, here only by a merge learned after `abc` and `d`
    merges = [("b", "c"), ("ab", "c"), ("abc", "d"), ("a", "bc")]
    tokenizer = handmade(["a", "b", "c", "d", "bc", "ab", "abc", "abcd"], merges)
    history = tokenizers.merge_steps("abcd", tokenizer)
    assert [(step.merges, step.joined) for step in history] == [(0, ""), (1, "bc"), (4, "abc"), (4, "abcd")]
    assert [step.pieces for step in history][1:] == [("a", "bc", "d"), ("abc", "d"), ("abcd",)]
    assert [cut_after("abcd", tokenizer, count) for count in (3, 4)] == [["a", "bc", "d"], ["abcd"]]
    for kind in (TokenizerKind.WORDPIECE, TokenizerKind.UNIGRAM):
        with raises_failure("no_merges"):
            tokenizers.merge_steps("학교", prepared(kind))
