"""Windows of tokens cover the text, short texts have none, and truncated texts are counted."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mrc_workbench.models.encoders import BiEncoder, CrossEncoderScorer, SparseTextEncoder
from mrc_workbench.models.inference import Precision
from mrc_workbench.models.loading import load_bi_encoder, load_cross_encoder, load_sparse_encoder
from mrc_workbench.models.sources import STARTER, find_model
from mrc_workbench.models.token_encoder import TokenEncoder
from mrc_workbench.models.windows import WindowCutter, WindowOptions, Windows
from tests.models.worlds import sharpened
from tests.tiny_models import MAX_LENGTH, SENTENCES, build_cross_encoder_base, build_sparse_encoder, with_head

pytestmark = pytest.mark.slow
WORDS = " ".join(SENTENCES).split()
SPECIAL = {"pad_token": "<pad>", "unk_token": "<unk>"}
LIMIT = 24  # tokens that the tokenizers here read


def wordpiece() -> Any:
    from tests.tiny_models import _tokenizer

    return _tokenizer(("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"))


def unigram() -> Any:
    from transformers import PreTrainedTokenizerFast

    from mrc_workbench.models.packaged import Pieces, make_tokenizer

    alphabet = sorted({letter for word in WORDS for letter in word})
    texts = ["<s>", "<pad>", "</s>", "<unk>", "▁", *alphabet, "▁" + WORDS[0], "<mask>"]
    tokenizer = make_tokenizer(Pieces(texts, [-float(n) for n in range(len(texts))], begin=0, end=2, pad=1, unknown=3))
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, **SPECIAL)


def byte_pairs() -> Any:
    from tokenizers import ByteLevelBPETokenizer
    from transformers import PreTrainedTokenizerFast

    tokenizer = ByteLevelBPETokenizer()
    tokenizer.train_from_iterator(SENTENCES, vocab_size=300, show_progress=False)
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer._tokenizer, **SPECIAL)


TOKENIZERS = [wordpiece(), unigram(), byte_pairs()]
for named_tokenizer in TOKENIZERS:
    named_tokenizer.model_max_length = LIMIT


def long_text(n_words: int, seed: int = 0) -> str:
    return " ".join(np.random.default_rng(seed).choice(WORDS, n_words))


def tokens(tokenizer: Any, text: str, **settings: Any) -> int:
    return len(tokenizer(text, verbose=False, **settings)["input_ids"])


def assert_covered(text: str, head: int, read: Sequence[tuple[int, int]]) -> None:
    covered = np.zeros(len(text), dtype=bool)
    for start, end in read:
        covered[start:end] = True
    assert not [mark for mark, known in zip(text[head:], covered[head:], strict=True) if mark.strip() and not known]


@settings(deadline=None, max_examples=40)
@given(
    st.lists(st.sampled_from([*WORDS, "a" * 60, "물" * 30, "\n"]), min_size=1, max_size=80),
    st.sampled_from(["", "세종", "긴 제목 " * 8]),
    st.builds(lambda size, stride: WindowOptions(size, min(stride, size or stride)), *[st.integers(0, 20)] * 2),
    st.sampled_from(TOKENIZERS),
    st.sampled_from(["", "passage: "]),
)
def test_windows_cover_texts(words: list[str], title: str, options: WindowOptions, tokenizer: Any, prompt: str) -> None:
    head = len(title) + 1 if title else 0
    text = f"{title}\n{' '.join(words)}" if title else " ".join(words)
    windows = WindowCutter(tokenizer, options, prompt).windows([text], np.array([head])).windows_of(0)
    whole = tokens(tokenizer, prompt + text) <= LIMIT
    assert bool(windows) == (not whole)
    if whole:
        return
    assert_covered(text, windows[0].title_length, [window[1:] for window in windows])
    assert all(window.title_length in (0, head) for window in windows)
    assert all(tokens(tokenizer, prompt + window.text(text)) <= LIMIT for window in windows)
    assert windows == sorted(windows)


@settings(deadline=None, max_examples=40)
@given(st.integers(1, 120), st.integers(0, 30), st.sampled_from(["", "세종"]), st.sampled_from(TOKENIZERS))
def test_windows_fit_beside_question(n_words: int, n_question_words: int, title: str, tokenizer: Any) -> None:
    question = long_text(n_question_words, 1)
    text = long_text(n_words)
    head, text = (len(title) + 1, f"{title}\n{text}") if title else (0, text)
    windows = WindowCutter(tokenizer, WindowOptions()).windows_beside(question, text, head)
    room = LIMIT - tokenizer.num_special_tokens_to_add(pair=True)
    of_question = min(tokens(tokenizer, question, add_special_tokens=False), room - room // 2)
    assert bool(windows) == (of_question + tokens(tokenizer, text, add_special_tokens=False) > room)
    if windows:
        assert_covered(text, windows[0].title_length, [window[1:] for window in windows])
        lengths = [tokens(tokenizer, window.text(text), add_special_tokens=False) for window in windows]
        assert of_question + max(lengths) <= room


def test_windows_overlap_by_half_and_start_at_words() -> None:
    # a token a word: "[UNK]"
    tokenizer = TOKENIZERS[0]
    text = " ".join(str(n % 10) for n in range(50))
    (first, second, *others) = WindowCutter(tokenizer, WindowOptions()).windows([text], np.array([0])).windows_of(0)
    assert (first.start, first.end) == (0, 2 * 22 - 1)  # 22 tokens beside [CLS] and [SEP]
    assert (second.start, second.end) == (2 * 11, 2 * 33 - 1)
    assert others[-1].end == len(text)
    small = WindowCutter(tokenizer, WindowOptions(10, 4)).windows([text], np.array([0]))
    assert [window.start for window in small.windows_of(0)] == list(range(0, 2 * 41, 8))
    assert not small.first_is_prefix


@pytest.mark.parametrize(("size", "stride"), [(-1, 0), (0, -1), (10, 11)])
def test_rejects_windows_with_gaps(size: int, stride: int) -> None:
    with pytest.raises(ValueError, match=r"tokens|stride"):
        WindowOptions(size, stride)


@pytest.fixture(scope="module")
def cross_encoder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return sharpened(with_head(build_cross_encoder_base(tmp_path_factory.mktemp("model") / "cross", segment_types=1)))


TEXTS = [long_text(n, n) for n in (3, 20, 200, 31, 400, 12)]  # the third and the fifth are too long for 128 tokens
TITLE_LENGTHS = np.zeros(len(TEXTS), dtype=np.int64)


@pytest.mark.parametrize("options", [WindowOptions(), WindowOptions(40, 30)])
def test_short_texts_keep_their_vector_and_long_texts_get_window_vectors(folder: Path, options: WindowOptions) -> None:
    encoder = BiEncoder(find_model(str(folder)), [], precision=Precision.FLOAT32)
    windows = encoder.windows_of(TEXTS, TITLE_LENGTHS, options)
    assert set(windows.rows.tolist()) == {2, 4}
    vectors, rows = encoder.encode_windows(TEXTS, windows)
    alone = encoder.encode_passages(TEXTS)
    for row in (0, 1, 3, 5):
        np.testing.assert_array_equal(vectors[rows == row], alone[[row]])
    for row in (2, 4):
        by_hand = encoder.encode("passage", [window.text(TEXTS[row]) for window in windows.windows_of(row)])
        assert len(by_hand) > 2
        if options.tokens:
            np.testing.assert_allclose(vectors[rows == row], by_hand, atol=2e-6)
        else:  # the first is the beginning as it was read: it may end within a word
            np.testing.assert_array_equal(vectors[rows == row][0], alone[row])
            np.testing.assert_allclose(vectors[rows == row][1:], by_hand[1:], atol=2e-6)


def test_reuses_vectors_if_no_text_is_long(folder: Path) -> None:
    short = TEXTS[:2]
    encoder = BiEncoder(find_model(str(folder)), [])
    windows = encoder.windows_of(short, TITLE_LENGTHS[:2], WindowOptions())
    assert not len(windows.rows)
    vectors, rows = encoder.encode_windows(short, windows)
    assert rows.tolist() == [0, 1]
    assert isinstance(vectors, np.memmap)
    assert vectors.filename == encoder.encode_passages(short).filename


def test_stores_windows(folder: Path) -> None:
    first = BiEncoder(find_model(str(folder)), [])
    windows = first.windows_of(TEXTS, TITLE_LENGTHS, WindowOptions())
    again = BiEncoder(find_model(str(folder)), [])
    same = again.windows_of(TEXTS, TITLE_LENGTHS, WindowOptions())
    assert "model" not in vars(again)
    np.testing.assert_array_equal(same.windows, windows.windows)
    np.testing.assert_array_equal(same.rows, windows.rows)


def test_starter_has_no_windows_and_truncates_nothing() -> None:
    encoder = BiEncoder(find_model(STARTER), SENTENCES)
    assert not len(encoder.windows_of(TEXTS, TITLE_LENGTHS, WindowOptions()))
    assert Windows.empty().texts(TEXTS) == []
    assert Windows.empty().whole_rows(3).tolist() == [0, 1, 2]
    assert encoder.count_truncated(AROUND) == 0
    scorer = CrossEncoderScorer(find_model(STARTER), SENTENCES)
    assert scorer.count_truncated(QUESTIONS, AROUND, np.zeros((3, 1), dtype=np.int32)) == 0
    pairs = [(SENTENCES[3], TEXTS[4])]
    np.testing.assert_array_equal(scorer.score_windows(pairs, [0], WindowOptions()), scorer.score(pairs))


def test_pair_score_is_best_window_score(cross_encoder: Path) -> None:
    scorer = CrossEncoderScorer(find_model(str(cross_encoder)), [], precision=Precision.FLOAT32)
    pairs = [(question, text) for question in (SENTENCES[3], long_text(90, 7)) for text in TEXTS]
    scores = scorer.score_windows(pairs, [0] * len(pairs), WindowOptions())
    for score, (question, text) in zip(scores, pairs, strict=True):
        windows = scorer.windows_of(question, text, 0, WindowOptions())
        read = [window.text(text) for window in windows] or [text]
        by_hand = [float(scorer.score([(question, part)])[0]) for part in read]
        assert score == pytest.approx(max(by_hand), abs=1e-5)
        assert bool(windows) == (text in (TEXTS[2], TEXTS[4]))
    assert scorer.score_windows([], [], WindowOptions()).shape == (0,)


# of how many texts only the beginning is read: around the limit one by one
AROUND = [long_text(n, n) for n in (0, 1, 50, *range(100, 150, 3), 300)]
QUESTIONS = [AROUND[1], " ".join(WORDS[:40]), AROUND[-1]]


@pytest.mark.parametrize("prompt", ["", "한강은 서울을 "])
def test_bi_encoder_counts_truncated_texts_with_prompt(folder: Path, prompt: str) -> None:
    encoder = BiEncoder(find_model(str(folder)), AROUND)
    encoder.model = load_bi_encoder(find_model(str(folder)), [])
    encoder.model.prompts["document"] = prompt
    is_too_long = [tokens(encoder.model.tokenizer, prompt + text) > MAX_LENGTH for text in AROUND]
    assert 1 < sum(is_too_long) < len(AROUND)
    assert encoder.count_truncated(AROUND) == sum(is_too_long)


def test_stores_text_lengths(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = BiEncoder(find_model(str(folder)), AROUND).count_truncated(AROUND)
    monkeypatch.setattr(BiEncoder, "load", lambda _: pytest.fail("loaded again"))
    assert BiEncoder(find_model(str(folder)), AROUND).count_truncated(AROUND) == expected > 0


def test_late_interaction_counts_truncated_texts_without_windows(folder: Path) -> None:
    source = find_model(str(folder))
    n_truncated = TokenEncoder(source, AROUND).count_truncated(AROUND)
    assert n_truncated == BiEncoder(source, AROUND).count_truncated(AROUND) > 0
    assert TokenEncoder(source, AROUND, windows=WindowOptions()).count_truncated(AROUND) == 0


def test_cross_encoder_counts_passages_too_long_for_pair(tmp_path: Path) -> None:
    source = find_model(str(with_head(build_cross_encoder_base(tmp_path / "tiny"))))
    tokenizer = load_cross_encoder(source, []).tokenizer
    limit = int(tokenizer.model_max_length)
    rng = np.random.default_rng(0)
    candidates = np.stack([rng.permutation(len(AROUND))[:6] for _ in QUESTIONS])
    candidates[0, -1] = -1

    def cut(question: str, text: str) -> bool:
        """Whether the tokenizer leaves something of the passage out."""
        read = tokenizer(question, text, truncation="longest_first", max_length=limit)
        held = sum(of == 1 for of in read.sequence_ids())
        return held < len(tokenizer(text, add_special_tokens=False, verbose=False)["input_ids"])

    pairs = [(question, row) for question, rows in zip(QUESTIONS, candidates, strict=True) for row in rows if row >= 0]
    expected = {row for question, row in pairs if cut(question, AROUND[row])}
    assert 0 < len(expected) < len({row for _, row in pairs})
    assert CrossEncoderScorer(source, AROUND).count_truncated(QUESTIONS, AROUND, candidates) == len(expected)


@pytest.mark.parametrize("inference_free", [False, True])
def test_sparse_encoder_counts_truncated_texts(tmp_path: Path, inference_free: bool) -> None:
    source = find_model(str(build_sparse_encoder(tmp_path / "tiny", inference_free=inference_free)))
    model = load_sparse_encoder(source)
    n_too_long = sum(tokens(model.tokenizer, text) > model.max_seq_length for text in AROUND)
    assert SparseTextEncoder(source, AROUND).count_truncated(AROUND) == n_too_long > 0
