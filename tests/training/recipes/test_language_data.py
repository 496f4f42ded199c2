"""Training and validation rows of language models: the split of documents, fixed rows, and masking."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from transformers import AutoTokenizer

from mrc_workbench.data.split import Part, SplitOptions
from mrc_workbench.data.text.corpora import find_corpus
from mrc_workbench.data.workspace import workspace
from mrc_workbench.models.language.masking import IGNORED, PERPLEXITY
from mrc_workbench.models.language.tokenizers import WholeWords
from mrc_workbench.training.options import OptionError, TrainingError
from mrc_workbench.training.recipes.language_data import UNIGRAM, LanguageTrainingData, assign_part
from mrc_workbench.training.recipes.texts import LANGUAGE_FAMILY
from mrc_workbench.training.text_options import LanguageObjective
from tests.tiny_models import build_cross_encoder_base
from tests.training.recipes.language_worlds import SHARES, make_documents, make_options, text_file

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> LanguageTrainingData:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MRC_WORKSPACE", str(tmp_path_factory.mktemp("workspace")))
        return LanguageTrainingData.from_corpus(find_corpus(text_file(400)), SHARES, make_options())


def documents(data: LanguageTrainingData, part: Part) -> list[str]:
    file = data.files[part]
    bounds = zip(file.bounds[:-1].tolist(), file.bounds[1:].tolist(), strict=True)
    return [data.tokenizer.decode(file.tokens[start : end - 1].tolist()) for start, end in bounds]


def test_puts_each_document_in_one_part(data: LanguageTrainingData) -> None:
    by_part = {part: [text for text in make_documents(400) if assign_part(text, SHARES) is part] for part in Part}
    assert data.documents == {part: len(by_part[part]) for part in (Part.TRAIN, Part.VALIDATION, Part.TEST)}
    for part in (Part.TRAIN, Part.VALIDATION):
        assert documents(data, part) == by_part[part]
    shares = [len(by_part[part]) / 400 for part in (Part.TRAIN, Part.VALIDATION, Part.TEST)]
    assert shares == pytest.approx([0.7, 0.2, 0.1], abs=0.06)
    assert data.tokens == sum(len(data.tokenizer(text)["input_ids"]) - 2 for text in by_part[Part.TRAIN])


def test_masks_anew_each_epoch_and_repeats_on_resume(data: LanguageTrainingData) -> None:
    hidden = data.training_rows
    first = hidden.batch([3, 1, 2])
    same = hidden.batch([3, 1, 2])
    other = hidden.batch([1, 2, 3])
    for name, values in first.items():
        assert np.array_equal(values, same[name])
    assert not np.array_equal(first["labels"][0], other["labels"][2]), "the same row in another batch"
    is_masked = first["labels"] != IGNORED
    whole = np.where(is_masked, first["labels"], first["input_ids"])
    assert np.array_equal(whole, hidden.blocks.read([3, 1, 2], np.random.default_rng(0)).tokens)
    assert first["weights"].tolist() == [[pytest.approx(3 / is_masked.sum())]] * 3
    assert first["attention_mask"].all(), "no place is padding"


def test_measured_rows_are_fixed_and_limited(data: LanguageTrainingData) -> None:
    rows = data.validation_rows
    assert len(rows.rows) == min(40, len(data.held_out))
    assert sorted(row for batch in rows.batches() for row in batch) == rows.rows.tolist()
    assert all(np.array_equal(first, second) for first, second in zip(rows.labels(), rows.labels(), strict=True))
    unlimited = replace(data, options=make_options(evaluation_limit=0))
    assert len(unlimited.validation_rows.rows) == len(data.held_out)


def test_measures_unigram_baseline_on_same_tokens(data: LanguageTrainingData) -> None:
    baseline = data.baselines()[UNIGRAM]
    tokens = [token for text in documents(data, Part.TRAIN) for token in data.tokenizer(text)["input_ids"][1:-1]]
    counts = np.bincount(tokens, minlength=len(data.tokenizer))
    counts[data.tokenizer.all_special_ids] = 0
    masked_tokens = [token for row in data.validation_rows.labels() for token in row.tolist() if token >= 0]
    chances = (counts[masked_tokens] + 1) / (counts.sum() + len(counts) - 5)
    assert baseline.means()["validation"][PERPLEXITY] == pytest.approx(float(np.exp(-np.log(chances).mean())))
    assert data.read_measurement(baseline.to_dict()) is not None
    hides_more = replace(data, options=make_options(mask_fraction=0.3))
    assert hides_more.read_measurement(baseline.to_dict()) is None, "other tokens are hidden"


def test_tokenizes_text_once(data: LanguageTrainingData, monkeypatch: pytest.MonkeyPatch) -> None:
    corpus = find_corpus(text_file(60))
    first = LanguageTrainingData.from_corpus(corpus, SHARES, make_options())
    monkeypatch.setattr("mrc_workbench.training.recipes.language_data.write_tokens", None)
    monkeypatch.setattr("mrc_workbench.training.recipes.language_data.gather_documents", None)
    again = LanguageTrainingData.from_corpus(corpus, SHARES, make_options(mask_fraction=0.4, size="base"))
    assert np.array_equal(first.files[Part.TRAIN].tokens, again.files[Part.TRAIN].tokens)
    with pytest.raises(TypeError):
        LanguageTrainingData.from_corpus(corpus, SplitOptions(0.1, 0.1), make_options())
    assert len([path for path in (workspace() / "cache" / "tokens").iterdir() if path.is_dir()]) == 1


def test_masks_whole_words(data: LanguageTrainingData) -> None:
    whole = replace(data, options=make_options(whole_words=WholeWords.SPACES, mask_fraction=0.3)).training_rows
    batch = whole.batch(range(8))
    words = whole.blocks.read(range(8), np.random.default_rng(0)).words
    for row in range(8):
        text = np.where(batch["labels"][row] != IGNORED, batch["labels"][row], batch["input_ids"][row]) >= 5
        for word in np.unique(words[row][text]):
            own = batch["labels"][row, (words[row] == word) & text] != IGNORED
            assert own.all() or not own.any()


@pytest.mark.parametrize("changed", [{}, {"whole_words": WholeWords.SPACES}, {"objective": LanguageObjective.MLM_NSP}])
def test_mask_fractions_over_many_batches(data: LanguageTrainingData, changed: dict[str, Any]) -> None:
    hidden = replace(data, options=make_options(**changed)).training_rows
    order = np.random.default_rng(0)
    special = hidden.masker.special
    seen = np.zeros(5, dtype=np.int64)  # text, masked, as [MASK], as a random token, unchanged
    follows = list[int]()
    for _ in range(10_000):
        batch = hidden.batch(order.choice(len(hidden), 8, replace=False).tolist())
        is_masked = batch["labels"] != IGNORED
        input_ids = batch["input_ids"]
        true = np.where(is_masked, batch["labels"], input_ids)
        assert not special[true[is_masked]].any()
        masked = is_masked & (input_ids == hidden.masker.mask)
        itself = is_masked & (input_ids == true)
        other = is_masked & ~masked & ~itself
        seen += [(~special[true]).sum(), is_masked.sum(), masked.sum(), other.sum(), itself.sum()]
        follows.extend(batch["follows"].ravel() if "follows" in batch else ())
    by_chance = 0.1 / (~special).sum()  # so many random tokens equal the original
    assert seen[1] / seen[0] == pytest.approx(0.15, abs=0.001)
    assert seen[2:] / seen[1] == pytest.approx([0.8, 0.1 - by_chance, 0.1 + by_chance], abs=0.001)
    assert not follows or np.mean(follows) == pytest.approx(0.5, abs=0.005)
    assert len(follows) == (80_000 if "objective" in changed else 0)


def test_uses_tokenizer_of_base(tmp_path: Path) -> None:
    base = str(build_cross_encoder_base(tmp_path / "base"))
    options = replace(make_options(), base=base, objective=LanguageObjective.MLM)
    data = LanguageTrainingData.from_corpus(find_corpus(text_file(60)), SHARES, options)
    assert data.tokenizer.get_vocab() == AutoTokenizer.from_pretrained(base).get_vocab()
    assert data.training_rows.batch([0])["input_ids"][0, 0] == data.tokenizer.cls_token_id


def test_reports_small_corpus_or_missing_tokenizer(tmp_path: Path) -> None:
    path = tmp_path / "one.txt"
    texts = [text for text in make_documents(30) if assign_part(text, SHARES) is Part.TRAIN]
    path.write_text("\n".join(texts), encoding="utf-8")
    with pytest.raises(TrainingError) as caught:
        LanguageTrainingData.from_corpus(find_corpus(str(path)), SHARES, make_options())
    assert caught.value.code == "too_few_documents"
    with pytest.raises(OptionError) as refused:
        LANGUAGE_FAMILY.check(find_corpus(text_file()), make_options(tokenizer=str(tmp_path)))
    assert (refused.value.option, refused.value.code) == ("tokenizer", "no_tokenizer")
