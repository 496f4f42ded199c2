"""What is learned from and what is not: documents on one side each, rows that are always the same, hidden anew."""

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
from mrc_workbench.training.recipes.language import LANGUAGES
from mrc_workbench.training.recipes.language_material import UNIGRAM, LanguageMaterial, part_of
from mrc_workbench.training.text_options import LanguageObjective
from tests.tiny_models import build_cross_encoder_base
from tests.training.recipes.language_worlds import SHARES, of_topics, options_of, text_file

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def material(tmp_path_factory: pytest.TempPathFactory) -> LanguageMaterial:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MRC_WORKSPACE", str(tmp_path_factory.mktemp("workspace")))
        return LanguageMaterial.of(find_corpus(text_file(400)), SHARES, options_of())


def documents(material: LanguageMaterial, part: Part) -> list[str]:
    file = material.files[part]
    bounds = zip(file.bounds[:-1].tolist(), file.bounds[1:].tolist(), strict=True)
    return [material.tokenizer.decode(file.tokens[start : end - 1].tolist()) for start, end in bounds]


def test_every_document_is_on_one_side(material: LanguageMaterial) -> None:
    by_part = {part: [text for text in of_topics(400) if part_of(text, SHARES) is part] for part in Part}
    assert material.documents == {part: len(by_part[part]) for part in (Part.TRAIN, Part.VALIDATION, Part.TEST)}
    for part in (Part.TRAIN, Part.VALIDATION):
        assert documents(material, part) == by_part[part]
    shares = [len(by_part[part]) / 400 for part in (Part.TRAIN, Part.VALIDATION, Part.TEST)]
    assert shares == pytest.approx([0.7, 0.2, 0.1], abs=0.06)
    assert material.tokens == sum(len(material.tokenizer(text)["input_ids"]) - 2 for text in by_part[Part.TRAIN])


def test_rows_are_hidden_anew_in_every_epoch_and_the_same_when_taken_up_again(material: LanguageMaterial) -> None:
    hidden = material.learned
    first, same, other = hidden.batch([3, 1, 2]), hidden.batch([3, 1, 2]), hidden.batch([1, 2, 3])
    for name, values in first.items():
        assert np.array_equal(values, same[name])
    assert not np.array_equal(first["labels"][0], other["labels"][2]), "the same row in another batch"
    asked = first["labels"] != IGNORED
    whole = np.where(asked, first["labels"], first["input_ids"])
    assert np.array_equal(whole, hidden.blocks.read([3, 1, 2], np.random.default_rng(0)).tokens)
    assert first["shares"].tolist() == [[pytest.approx(3 / asked.sum())]] * 3
    assert first["attention_mask"].all(), "no place is padding"


def test_what_is_measured_is_always_the_same_and_limited(material: LanguageMaterial) -> None:
    rows = material.judging
    assert len(rows.rows) == min(40, len(material.held_out))
    assert sorted(row for batch in rows.batches() for row in batch) == rows.rows.tolist()
    assert all(np.array_equal(one, two) for one, two in zip(rows.labels(), rows.labels(), strict=True))
    unlimited = replace(material, options=options_of(evaluation_limit=0))
    assert len(unlimited.judging.rows) == len(material.held_out)


def test_frequency_alone_is_measured_on_the_same_tokens(material: LanguageMaterial) -> None:
    found = material.baselines()[UNIGRAM]
    counts = np.bincount(
        [one for text in documents(material, Part.TRAIN) for one in material.tokenizer(text)["input_ids"][1:-1]],
        minlength=len(material.tokenizer),
    )
    counts[material.tokenizer.all_special_ids] = 0
    asked = [one for row in material.judging.labels() for one in row.tolist() if one >= 0]
    chances = (counts[asked] + 1) / (counts.sum() + len(counts) - 5)
    assert found.means()["validation"][PERPLEXITY] == pytest.approx(float(np.exp(-np.log(chances).mean())))
    assert material.measurement(found.kept()) is not None
    hides_more = replace(material, options=options_of(mask_share=0.3))
    assert hides_more.measurement(found.kept()) is None, "other tokens are hidden"


def test_the_text_is_cut_once(material: LanguageMaterial, monkeypatch: pytest.MonkeyPatch) -> None:
    corpus = find_corpus(text_file(60))
    first = LanguageMaterial.of(corpus, SHARES, options_of())
    monkeypatch.setattr("mrc_workbench.training.recipes.language_material.write_tokens", None)
    monkeypatch.setattr("mrc_workbench.training.recipes.language_material.gathered", None)
    again = LanguageMaterial.of(corpus, SHARES, options_of(mask_share=0.4, size="base"))
    assert np.array_equal(first.files[Part.TRAIN].tokens, again.files[Part.TRAIN].tokens)
    with pytest.raises(TypeError):
        LanguageMaterial.of(corpus, SplitOptions(0.1, 0.1), options_of())
    assert len([path for path in (workspace() / "cache" / "tokens").iterdir() if path.is_dir()]) == 1


def test_words_are_hidden_whole(material: LanguageMaterial) -> None:
    whole = replace(material, options=options_of(whole_words=WholeWords.SPACES, mask_share=0.3)).learned
    told = whole.batch(range(8))
    words = whole.blocks.read(range(8), np.random.default_rng(0)).words
    for row in range(8):
        text = np.where(told["labels"][row] != IGNORED, told["labels"][row], told["input_ids"][row]) >= 5
        for word in np.unique(words[row][text]):
            own = told["labels"][row, (words[row] == word) & text] != IGNORED
            assert own.all() or not own.any()


@pytest.mark.parametrize("changed", [{}, {"whole_words": WholeWords.SPACES}, {"objective": LanguageObjective.MLM_NSP}])
def test_the_shares_of_ten_thousand_batches(material: LanguageMaterial, changed: dict[str, Any]) -> None:
    """As they are trained on, each hidden by its own rows."""
    hidden = replace(material, options=options_of(**changed)).learned
    order, special = np.random.default_rng(0), hidden.masker.special
    seen = np.zeros(5, dtype=np.int64)  # text, hidden, as the mask, as another, as it is
    follows = list[int]()
    for _ in range(10_000):
        told = hidden.batch(order.choice(len(hidden), 8, replace=False).tolist())
        asked, shown = told["labels"] != IGNORED, told["input_ids"]
        true = np.where(asked, told["labels"], shown)
        assert not special[true[asked]].any()
        masked, itself = asked & (shown == hidden.masker.mask), asked & (shown == true)
        other = asked & ~masked & ~itself
        seen += [(~special[true]).sum(), asked.sum(), masked.sum(), other.sum(), itself.sum()]
        follows.extend(told["follows"].ravel() if "follows" in told else ())
    by_chance = 0.1 / (~special).sum()  # of those shown as another, so many are what they were
    assert seen[1] / seen[0] == pytest.approx(0.15, abs=0.001)
    assert seen[2:] / seen[1] == pytest.approx([0.8, 0.1 - by_chance, 0.1 + by_chance], abs=0.001)
    assert not follows or np.mean(follows) == pytest.approx(0.5, abs=0.005)
    assert len(follows) == (80_000 if "objective" in changed else 0)


def test_the_tokenizer_of_a_base_is_used(tmp_path: Path) -> None:
    base = str(build_cross_encoder_base(tmp_path / "base"))
    options = replace(options_of(), base=base, objective=LanguageObjective.MLM)
    found = LanguageMaterial.of(find_corpus(text_file(60)), SHARES, options)
    assert found.tokenizer.get_vocab() == AutoTokenizer.from_pretrained(base).get_vocab()
    assert found.learned.batch([0])["input_ids"][0, 0] == found.tokenizer.cls_token_id


def test_what_is_too_little_or_no_tokenizer_is_told(tmp_path: Path) -> None:
    path = tmp_path / "one.txt"
    path.write_text("\n".join(text for text in of_topics(30) if part_of(text, SHARES) is Part.TRAIN), encoding="utf-8")
    with pytest.raises(TrainingError) as caught:
        LanguageMaterial.of(find_corpus(str(path)), SHARES, options_of())
    assert caught.value.code == "too_few_documents"
    with pytest.raises(OptionError) as refused:
        LANGUAGES.check(find_corpus(text_file()), options_of(tokenizer=str(tmp_path)))
    assert (refused.value.option, refused.value.code) == ("tokenizer", "no_tokenizer")
