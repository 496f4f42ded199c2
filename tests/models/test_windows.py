"""Windows of tokens: nothing of a text goes unread, and what fits is left as it is."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from models.encoders.bi_encoder import BiEncoder
from models.encoders.cross_encoder import CrossEncoderScorer
from models.precision import Precision
from models.sources import STARTER, find_model
from models.windows import Cutter, WindowOptions, Windows
from tests.hub import SENTENCES, build_bi_encoder, build_cross_encoder_base, with_head
from tests.models.worlds import telling

pytestmark = pytest.mark.slow
WORDS = " ".join(SENTENCES).split()
SPECIAL = {"pad_token": "<pad>", "unk_token": "<unk>"}
LIMIT = 24  # tokens that the tokenizers here read


def wordpiece() -> Any:
    from tests.hub import _tokenizer

    return _tokenizer(("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"))


def unigram() -> Any:
    from transformers import PreTrainedTokenizerFast

    from models.packaged import Pieces, make_tokenizer

    letters = sorted({letter for word in WORDS for letter in word})
    texts = ["<s>", "<pad>", "</s>", "<unk>", "▁", *letters, "▁" + WORDS[0], "<mask>"]
    made = make_tokenizer(Pieces(texts, [-float(n) for n in range(len(texts))], begin=0, end=2, pad=1, unknown=3))
    return PreTrainedTokenizerFast(tokenizer_object=made, **SPECIAL)


def byte_pairs() -> Any:
    from tokenizers import ByteLevelBPETokenizer
    from transformers import PreTrainedTokenizerFast

    made = ByteLevelBPETokenizer()
    made.train_from_iterator(SENTENCES, vocab_size=300, show_progress=False)
    return PreTrainedTokenizerFast(tokenizer_object=made._tokenizer, **SPECIAL)


TOKENIZERS = [wordpiece(), unigram(), byte_pairs()]
for one in TOKENIZERS:
    one.model_max_length = LIMIT


def long_text(n_words: int, seed: int = 0) -> str:
    return " ".join(np.random.default_rng(seed).choice(WORDS, n_words))


def tokens(tokenizer: Any, text: str, **settings: Any) -> int:
    return len(tokenizer(text, verbose=False, **settings)["input_ids"])


def assert_covered(text: str, head: int, read: Sequence[tuple[int, int]]) -> None:
    covered = np.zeros(len(text), dtype=bool)
    for start, end in read:
        covered[start:end] = True
    assert not [
        letter for letter, known in zip(text[head:], covered[head:], strict=True) if letter.strip() and not known
    ]


@settings(deadline=None, max_examples=40)
@given(
    st.lists(st.sampled_from([*WORDS, "a" * 60, "물" * 30, "\n"]), min_size=1, max_size=80),
    st.sampled_from(["", "세종", "긴 제목 " * 8]),
    st.builds(lambda size, stride: WindowOptions(size, min(stride, size or stride)), *[st.integers(0, 20)] * 2),
    st.sampled_from(TOKENIZERS),
    st.sampled_from(["", "passage: "]),
)
def test_windows_cover_every_letter_and_are_read_whole(
    words: list[str], title: str, options: WindowOptions, tokenizer: Any, prompt: str
) -> None:
    head = len(title) + 1 if title else 0
    text = f"{title}\n{' '.join(words)}" if title else " ".join(words)
    windows = Cutter(tokenizer, options, prompt).windows([text], np.array([head])).of(0)
    whole = tokens(tokenizer, prompt + text) <= LIMIT
    assert bool(windows) == (not whole)
    if whole:
        return
    assert_covered(text, windows[0].head, [window[1:] for window in windows])
    assert all(window.head in (0, head) for window in windows)
    assert all(tokens(tokenizer, prompt + window.text(text)) <= LIMIT for window in windows)
    assert windows == sorted(windows)


@settings(deadline=None, max_examples=40)
@given(st.integers(1, 120), st.integers(0, 30), st.sampled_from(["", "세종"]), st.sampled_from(TOKENIZERS))
def test_windows_beside_a_question_fit_into_the_pair(n_words: int, asked: int, title: str, tokenizer: Any) -> None:
    question, text = long_text(asked, 1), long_text(n_words)
    head, text = (len(title) + 1, f"{title}\n{text}") if title else (0, text)
    windows = Cutter(tokenizer, WindowOptions()).beside(question, text, head)
    room = LIMIT - tokenizer.num_special_tokens_to_add(pair=True)
    of_question = min(tokens(tokenizer, question, add_special_tokens=False), room - room // 2)
    assert bool(windows) == (of_question + tokens(tokenizer, text, add_special_tokens=False) > room)
    if windows:
        assert_covered(text, windows[0].head, [window[1:] for window in windows])
        lengths = [tokens(tokenizer, window.text(text), add_special_tokens=False) for window in windows]
        assert of_question + max(lengths) <= room


def test_windows_overlap_by_half_and_begin_with_words() -> None:
    tokenizer, text = TOKENIZERS[0], " ".join(str(n % 10) for n in range(50))  # a token a word: "[UNK]"
    (first, second, *others) = Cutter(tokenizer, WindowOptions()).windows([text], np.array([0])).of(0)
    assert (first.start, first.end) == (0, 2 * 22 - 1)  # 22 tokens beside [CLS] and [SEP]
    assert (second.start, second.end) == (2 * 11, 2 * 33 - 1)
    assert others[-1].end == len(text)
    small = Cutter(tokenizer, WindowOptions(10, 4)).windows([text], np.array([0]))
    assert [window.start for window in small.of(0)] == list(range(0, 2 * 41, 8))
    assert not small.as_read


@pytest.mark.parametrize(("size", "stride"), [(-1, 0), (0, -1), (10, 11)])
def test_windows_with_gaps_are_refused(size: int, stride: int) -> None:
    with pytest.raises(ValueError, match=r"tokens|stride"):
        WindowOptions(size, stride)


@pytest.fixture(scope="module")
def bi_encoder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_bi_encoder(tmp_path_factory.mktemp("model") / "bi")


@pytest.fixture(scope="module")
def cross_encoder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return telling(with_head(build_cross_encoder_base(tmp_path_factory.mktemp("model") / "cross", segment_types=1)))


TEXTS = [long_text(n, n) for n in (3, 20, 200, 31, 400, 12)]  # the third and the fifth are too long for 128 tokens
HEADS = np.zeros(len(TEXTS), dtype=np.int64)


@pytest.mark.parametrize("options", [WindowOptions(), WindowOptions(40, 30)])
def test_what_is_read_whole_keeps_its_vector_and_the_long_ones_have_one_a_window(
    bi_encoder: Path, options: WindowOptions
) -> None:
    encoder = BiEncoder(find_model(str(bi_encoder)), [], precision=Precision.FLOAT32)
    windows = encoder.windows_of(TEXTS, HEADS, options)
    assert set(windows.rows.tolist()) == {2, 4}
    vectors, rows = encoder.encode_windows(TEXTS, windows)
    alone = encoder.encode_passages(TEXTS)
    for row in (0, 1, 3, 5):
        np.testing.assert_array_equal(vectors[rows == row], alone[[row]])
    for row in (2, 4):
        by_hand = encoder.encode("passage", [window.text(TEXTS[row]) for window in windows.of(row)])
        assert len(by_hand) > 2
        if options.tokens:
            np.testing.assert_allclose(vectors[rows == row], by_hand, atol=2e-6)
        else:  # the first is the beginning as it was read: it may end within a word
            np.testing.assert_array_equal(vectors[rows == row][0], alone[row])
            np.testing.assert_allclose(vectors[rows == row][1:], by_hand[1:], atol=2e-6)


def test_where_everything_fits_the_vectors_are_the_same_file(bi_encoder: Path) -> None:
    short = TEXTS[:2]
    encoder = BiEncoder(find_model(str(bi_encoder)), [])
    windows = encoder.windows_of(short, HEADS[:2], WindowOptions())
    assert not len(windows)
    vectors, rows = encoder.encode_windows(short, windows)
    assert rows.tolist() == [0, 1]
    assert isinstance(vectors, np.memmap)
    assert vectors.filename == encoder.encode_passages(short).filename


def test_windows_are_found_once_on_a_machine(bi_encoder: Path) -> None:
    first = BiEncoder(find_model(str(bi_encoder)), [])
    windows = first.windows_of(TEXTS, HEADS, WindowOptions())
    again = BiEncoder(find_model(str(bi_encoder)), [])
    same = again.windows_of(TEXTS, HEADS, WindowOptions())
    assert "model" not in vars(again)  # nothing was loaded
    np.testing.assert_array_equal(same.windows, windows.windows)
    np.testing.assert_array_equal(same.rows, windows.rows)


def test_a_starter_reads_texts_of_any_length() -> None:
    encoder = BiEncoder(find_model(STARTER), SENTENCES)
    assert not len(encoder.windows_of(TEXTS, HEADS, WindowOptions()))
    scorer = CrossEncoderScorer(find_model(STARTER), SENTENCES)
    pairs = [(SENTENCES[3], TEXTS[4])]
    np.testing.assert_array_equal(scorer.score_windows(pairs, [0], WindowOptions()), scorer.score(pairs))


def test_a_pair_scores_as_its_best_window_scored_by_hand(cross_encoder: Path) -> None:
    scorer = CrossEncoderScorer(find_model(str(cross_encoder)), [], precision=Precision.FLOAT32)
    pairs = [(question, text) for question in (SENTENCES[3], long_text(90, 7)) for text in TEXTS]
    scores = scorer.score_windows(pairs, [0] * len(pairs), WindowOptions())
    for score, (question, text) in zip(scores, pairs, strict=True):
        windows = scorer.windows_of(question, text, 0, WindowOptions())
        read = [window.text(text) for window in windows] or [text]
        by_hand = [float(scorer.score([(question, part)])[0]) for part in read]
        assert score == pytest.approx(max(by_hand), abs=1e-5)
        assert bool(windows) == (text in (TEXTS[2], TEXTS[4]))


def test_pairs_that_fit_score_as_they_did(cross_encoder: Path) -> None:
    scorer = CrossEncoderScorer(find_model(str(cross_encoder)), [])
    pairs = [(question, text) for question in SENTENCES for text in TEXTS[:2]]
    np.testing.assert_array_equal(scorer.score_windows(pairs, [0] * len(pairs), WindowOptions()), scorer.score(pairs))
    assert scorer.score_windows([], [], WindowOptions()).shape == (0,)


def test_no_windows() -> None:
    assert Windows.none().texts(TEXTS) == []
    assert Windows.none().standing(3).tolist() == [0, 1, 2]
