"""Tokenizers of four kinds: what is learned, files that the field's libraries read, and merges that build a word."""

import json
import random
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest
from tokenizers import Tokenizer, models, pre_tokenizers

from mrc_workbench.data.text.corpora import LONGEST, Corpus, held_out
from mrc_workbench.models.language.tokenizer_training import (
    BOUNDARY,
    SPECIAL,
    Sample,
    Split,
    TokenizerKind,
    TokenizerOptions,
    TrainedTokenizer,
    gathered,
    marked,
    morpheme_cuts,
    train_on,
)
from mrc_workbench.models.language.tokenizers import PreparedTokenizer, is_of_bytes, load_tokenizer, readable, steps
from tests.labs.language.doubles import refused

NOUNS = ("학교", "도서관", "시장", "바다", "강아지", "사과", "나무", "편지", "노래", "기차")
VERBS = ("갔다", "왔다", "보았다", "먹었다", "걸었다", "불렀다", "만났다", "잤다", "Café", "3.5km")
SENTENCES = [
    f"{first}에서 {second}를 {verb}. {first}와 {second}도, “{verb}”!"
    for first in NOUNS
    for second in NOUNS
    for verb in VERBS
]
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


def train(corpus: Corpus, options: TokenizerOptions) -> TrainedTokenizer:
    with gathered(corpus, options.sample) as material:
        return train_on(material, options.kind, options.vocabulary)


@cache
def trained(kind: TokenizerKind, split: Split = Split.WORDS) -> TrainedTokenizer:
    """On `CORPUS`, once."""
    return train(CORPUS, TokenizerOptions(kind, 1_000, Sample(split=split)))


@cache
def prepared(kind: TokenizerKind, split: Split = Split.WORDS) -> PreparedTokenizer:
    return PreparedTokenizer.of(trained(kind, split))


def test_what_is_held_out_is_never_learned_from_and_all_else_is() -> None:
    sample = Sample(held_out=0.3, seed=5)
    with gathered(CORPUS, sample) as material:
        learned = [line.rstrip("\n") for line in material.lines()]
    assert learned == [text for text in SENTENCES if not held_out(text, 0.3, 5)]
    assert (material.documents, material.characters) == (len(learned), sum(map(len, learned)))
    assert material.share == 1.0
    assert not material.path.exists()  # it was for the trainers alone


def test_of_a_large_corpus_a_share_is_learned_from() -> None:
    sample = Sample(held_out=0.0, most_characters=CORPUS.characters // 4)
    with gathered(CORPUS, sample) as material:
        assert material.share == pytest.approx(0.25)
        assert material.documents == pytest.approx(250, abs=4 * (1000 * 0.25 * 0.75) ** 0.5)


def test_letters_that_are_too_rare_leave_a_gap() -> None:
    with gathered(Documents(("가가가나나다", "가 나나 라\n마")), Sample(held_out=0.0)) as material:
        assert material.letters == ("가", "나", " ", "다", "라", "마")
        assert [*material.lines(3)] == ["가가가나나 \n", "가 나나    \n"]
        assert [*material.lines()] == ["가가가나나다\n", "가 나나 라 마\n"]


def test_options_that_cannot_be_are_told() -> None:
    for vocabulary in (999, 64_001):
        with refused("vocabulary"):
            TokenizerOptions(vocabulary=vocabulary)
    with refused("held_out"):
        Sample(held_out=1.0)
    with refused("nothing_to_learn"), gathered(Documents(("하나",)), Sample(held_out=0.999)):
        pass


@pytest.mark.slow
@pytest.mark.parametrize("split", Split)
@pytest.mark.parametrize("kind", TokenizerKind)
def test_a_saved_tokenizer_is_one_that_libraries_read(kind: TokenizerKind, split: Split, tmp_path: Path) -> None:
    made = trained(kind, split)
    made.save(tmp_path / "kept")
    made.save(tmp_path / "kept")  # and again over it
    kept, again = Tokenizer.from_file(str(tmp_path / "kept" / "tokenizer.json")), load_tokenizer(tmp_path / "kept")
    assert [kept.id_to_token(number) for number in range(5)] == [*SPECIAL]
    assert 5 < kept.get_vocab_size() <= 1_000
    assert again.marks_morphemes == (split is Split.MORPHEMES)
    assert (again.trained["kind"], again.trained["share"], again.name) == (kind, 1.0, "kept")
    for text in again.prepared(SENTENCES[:50]):
        encoding = kept.encode(text)
        assert encoding.ids == made.tokenizer.encode(text).ids
        assert encoding.tokens[0] == "[CLS]"
        assert encoding.tokens[-1] == "[SEP]"
        assert "[UNK]" not in encoding.tokens
    pair = kept.encode("학교에서", "바다를")
    ends = [place for place, piece in enumerate(pair.tokens) if piece == "[SEP]"]
    assert len(ends) == 2
    assert pair.type_ids == [0] * (ends[0] + 1) + [1] * (ends[1] - ends[0])


@pytest.mark.slow
@pytest.mark.parametrize("kind", TokenizerKind)
def test_transformers_reads_it_and_keeps_what_it_is_told(kind: TokenizerKind, tmp_path: Path) -> None:
    from transformers import AutoTokenizer, PreTrainedTokenizerFast

    made = trained(kind, Split.MORPHEMES)
    made.save(tmp_path / "made")
    loaded = AutoTokenizer.from_pretrained(str(tmp_path / "made"))
    assert isinstance(loaded, PreTrainedTokenizerFast)
    names = (loaded.pad_token, loaded.unk_token, loaded.cls_token, loaded.sep_token, loaded.mask_token)
    assert names == SPECIAL
    assert [loaded.convert_tokens_to_ids(name) for name in names] == [0, 1, 2, 3, 4]
    for text in marked(SENTENCES[:20]):
        assert loaded(text)["input_ids"] == made.tokenizer.encode(text).ids
    assert loaded("학교에서", "바다를")["token_type_ids"][-1] == 1
    loaded.save_pretrained(str(tmp_path / "model"))  # as it is saved with a model
    again = load_tokenizer(tmp_path / "model")
    assert again.marks_morphemes
    assert again.pieces(SENTENCES[3]) == prepared(kind, Split.MORPHEMES).pieces(SENTENCES[3])


@pytest.mark.parametrize("kind", TokenizerKind)
def test_words_stay_words_and_letters_stay_letters(kind: TokenizerKind) -> None:
    for split in Split:
        made = prepared(kind, split)
        for text in SENTENCES[:30]:
            (given,) = made.prepared([text])
            assert given.replace(BOUNDARY, "") == text
            decoded = made.tokenizer.decode(made.tokenizer.encode(given).ids)
            assert decoded.replace(" ", "") == text.replace(" ", "")
            if kind is not TokenizerKind.WORDPIECE:  # which forgets the blanks around signs
                assert decoded == text
            assert "".join(piece.letters for piece in made.pieces(text)) == text.replace(" ", "")


@pytest.mark.parametrize("kind", TokenizerKind)
def test_no_piece_crosses_a_morpheme_where_these_are_marked(kind: TokenizerKind) -> None:
    texts = [*dict.fromkeys(SENTENCES)][:100]
    morphemes = morpheme_cuts(texts)
    for text, places, cut in zip(texts, morphemes, prepared(kind, Split.MORPHEMES).cut(texts, morphemes), strict=True):
        assert len(places) > 2
        assert set(places.tolist()) <= set(cut.spans[:, 0].tolist())
        assert text.count(" ") >= 3


def test_morphemes_are_marked_inside_words_alone() -> None:
    shown = [text.replace(BOUNDARY, "|") for text in marked(["세종대왕은 갔다.", "배가 🍎를 먹었다", "", "3.5km를"])]
    assert shown == ["세종|대왕|은 갔|다.", "배|가 🍎를 먹|었|다", "", "3.5|km|를"]
    assert marked([f"배{BOUNDARY}가"]) == marked(["배가"]) == marked(["배가"])


@pytest.mark.parametrize("kind", [TokenizerKind.WORDPIECE, TokenizerKind.BPE, TokenizerKind.BYTE_BPE])
def test_a_training_comes_out_the_same_each_time(kind: TokenizerKind) -> None:
    assert trained(kind).tokenizer.to_str() == trained.__wrapped__(kind).tokenizer.to_str()


def test_small_letters_are_asked_for() -> None:
    capital = "Café CAFÉ"
    for lowercase, wanted in ((True, "cafécafé"), (False, "CaféCAFÉ")):
        with gathered(Documents((capital * 1,) * 3), Sample(held_out=0.0, lowercase=lowercase)) as material:
            tokenizer = train_on(material, TokenizerKind.BPE, 1_000).tokenizer
        pieces = tokenizer.encode(capital, add_special_tokens=False).tokens
        assert "".join(pieces).replace("▁", "") == wanted


def test_of_wordpiece_the_longest_piece_goes_first() -> None:
    tokenizer = trained(TokenizerKind.WORDPIECE).tokenizer
    pieces = tokenizer.get_vocab()

    def longest_first(word: str) -> list[str]:
        found, rest = list[str](), word
        while rest:
            lead = "##" if found else ""
            end = next((end for end in range(len(rest), 0, -1) if lead + rest[:end] in pieces), 0)
            if not end:
                return ["[UNK]"]
            found.append(lead + rest[:end])
            rest = rest[end:]
        return found

    cut = {word: longest_first(word) for word in ("강아지에서", "도서관와", "학교갔다", "노래와와에서")}
    assert {len(found) for found in cut.values()} >= {1, 3}
    for word, found in cut.items():
        assert tokenizer.encode(word, add_special_tokens=False).tokens == found


@pytest.mark.slow
def test_a_document_of_the_greatest_length_is_cut() -> None:
    text = "학교" * (LONGEST // 2)
    assert "".join(piece.letters for piece in prepared(TokenizerKind.BPE).pieces(text)) == text


@pytest.mark.parametrize("split", Split)
@pytest.mark.parametrize("kind", TokenizerKind)
@pytest.mark.parametrize("text", ["하나", "a", "배가 배가", BOUNDARY, "\N{COMBINING ACUTE ACCENT}"])
def test_of_hardly_any_text_there_is_a_tokenizer_too(text: str, kind: TokenizerKind, split: Split) -> None:
    made = train(Documents((text,)), TokenizerOptions(kind, 1_000, Sample(split=split, held_out=0.0)))
    assert [made.tokenizer.id_to_token(number) for number in range(5)] == [*SPECIAL]
    assert made.tokenizer.encode("").tokens == ["[CLS]", "[SEP]"]
    assert PreparedTokenizer.of(made).pieces("") == []


def names_of(tokenizer: PreparedTokenizer, word: str, cut: Tokenizer) -> list[str]:
    (given,) = tokenizer.prepared([word])
    names = cut.encode(given, add_special_tokens=False).tokens
    return [readable(name, in_bytes=is_of_bytes(tokenizer)) for name in names]


def merges_of(tokenizer: PreparedTokenizer) -> list[tuple[str, str]]:
    return [(first, second) for first, second in tokenizer.content["model"]["merges"]]


def cut_after(word: str, tokenizer: PreparedTokenizer, merges: int) -> list[str]:
    """What the library makes of a word by the first so many merges."""
    content = tokenizer.content
    model = {**content["model"], "merges": merges_of(tokenizer)[:merges]}
    return names_of(tokenizer, word, Tokenizer.from_str(json.dumps({**content, "model": model})))


def merged(letters: list[str], pairs: list[tuple[str, str]]) -> list[str]:
    """Sennrich et al. 2016: in the order in which pairs were learned, each is joined wherever it stands."""
    for first, second in pairs:
        place = 0
        while place < len(letters) - 1:
            if letters[place : place + 2] == [first, second]:
                letters[place : place + 2] = [first + second]
            place += 1
    return letters


def after(word: str, tokenizer: PreparedTokenizer, merges: int) -> list[str]:
    """What the steps say of a word after the first so many merges."""
    return [*[one for one in steps(word, tokenizer) if one.merges <= merges][-1].pieces]


@pytest.mark.slow
@pytest.mark.parametrize("split", Split)
@pytest.mark.parametrize("kind", [TokenizerKind.BPE, TokenizerKind.BYTE_BPE])
def test_a_word_is_what_the_tokenizer_makes_of_it_after_any_number_of_merges(kind: TokenizerKind, split: Split) -> None:
    tokenizer, in_bytes = prepared(kind, split), kind is TokenizerKind.BYTE_BPE
    every = [tuple(readable(one, in_bytes=in_bytes) for one in pair) for pair in merges_of(tokenizer)]
    assert is_of_bytes(tokenizer) == in_bytes
    for word in WORDS:
        found = steps(word, tokenizer)
        places = {0, len(every)} | {one.merges + more for one in found for more in (-1, 0)}
        for place in sorted(places - {-1}):
            assert cut_after(word, tokenizer, place) == after(word, tokenizer, place)
        assert all(every[one.merges - 1] == one.pair for one in found[1:])
    assert max(len(steps(word, tokenizer)) for word in WORDS) > 3
    rng = random.Random(0)
    for _ in range(40):
        word = "".join(rng.choices([*NOUNS, *VERBS, "에서", "를", "와", "도"], k=3))
        assert [*steps(word, tokenizer)[-1].pieces] == names_of(tokenizer, word, tokenizer.tokenizer)


def test_a_word_is_built_as_the_algorithm_says_after_any_number_of_merges() -> None:
    tokenizer = prepared(TokenizerKind.BPE)
    pairs = merges_of(tokenizer)
    assert len(pairs) > 50
    for word in ("학교에서", "강아지도서관", "노래를불렀다"):
        for count in range(0, len(pairs) + 1, 7):
            assert after(word, tokenizer, count) == merged(list("▁" + word), pairs[:count])


def test_bytes_are_shown_as_text_where_they_are_one() -> None:
    tokenizer = prepared(TokenizerKind.BYTE_BPE)
    assert after("사", tokenizer, 0) == ["▁", "<EC>", "<82>", "<AC>"]
    assert after("사과", tokenizer, len(merges_of(tokenizer))) == ["▁사과"]
    assert after("a é", tokenizer, 0) == ["▁", "a", "▁", "<C3>", "<A9>"]


def test_every_byte_has_the_letter_that_the_library_gives_it() -> None:
    bytes_ = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    for text in ("".join(map(chr, range(0x250))), "가힣🍎한"):
        ((letters, _),) = bytes_.pre_tokenize_str(text)
        assert readable(letters, in_bytes=True) == text.replace(" ", "▁")


def test_a_word_that_is_a_piece_is_built_all_the_same() -> None:
    model = models.BPE({"a": 0, "b": 1, "ab": 2}, [("a", "b")], ignore_merges=True)
    tokenizer = PreparedTokenizer("whole words first", Tokenizer(model))
    assert [after("ab", tokenizer, count) for count in (0, 1)] == [["a", "b"], ["ab"]]


def test_a_pair_that_was_learned_early_may_be_joined_late() -> None:
    """`abc` is made of `ab` and `c` first, here only by a merge learned after `abc` and `d`."""
    pieces = {name: number for number, name in enumerate(["a", "b", "c", "d", "bc", "ab", "abc", "abcd"])}
    model = models.BPE(pieces, [("b", "c"), ("ab", "c"), ("abc", "d"), ("a", "bc")])
    tokenizer = PreparedTokenizer("by hand", Tokenizer(model))
    found = steps("abcd", tokenizer)
    assert [(one.merges, one.joined) for one in found] == [(0, ""), (1, "bc"), (4, "abc"), (4, "abcd")]
    assert [one.pieces for one in found][1:] == [("a", "bc", "d"), ("abc", "d"), ("abcd",)]
    assert [cut_after("abcd", tokenizer, count) for count in (3, 4)] == [["a", "bc", "d"], ["abcd"]]


def test_a_pair_is_joined_wherever_it_stands_from_the_left() -> None:
    model = models.BPE({"a": 0, "aa": 1}, [("a", "a")])
    tokenizer = PreparedTokenizer("by hand", Tokenizer(model))
    assert [one.pieces for one in steps("aaaaa", tokenizer)] == [("a",) * 5, ("aa", "aa", "a")]


@pytest.mark.parametrize("kind", [TokenizerKind.WORDPIECE, TokenizerKind.UNIGRAM])
def test_who_keeps_no_merges_is_told(kind: TokenizerKind) -> None:
    with refused("no_merges"):
        steps("학교", prepared(kind))
