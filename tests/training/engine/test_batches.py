"""Batches without false negatives, of texts of similar length, which differ in each epoch."""

from itertools import chain, pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from accelerate.data_loader import BatchSamplerShard
from hypothesis import given, reject, settings
from hypothesis import strategies as st
from scipy.sparse import csr_array

from mrc_workbench.models.loading import load_bi_encoder
from mrc_workbench.models.sources import STARTER, find_model
from mrc_workbench.training.base import Examples
from mrc_workbench.training.engine.batches import make_sampler
from tests.training.worlds import misleading_set

pytestmark = pytest.mark.slow

Batch = list[int]
EPOCHS = 4


def relevance_of(relevant: list[set[int]], n_passages: int) -> csr_array:
    pairs = [(question, passage) for question, passages in enumerate(relevant) for passage in passages]
    rows, columns = np.array(pairs).T
    return csr_array((np.ones(len(pairs), dtype=bool), (rows, columns)), shape=(len(relevant), n_passages))


def plain(passage_of_question: np.ndarray, lengths: np.ndarray | None = None, **changes: Any) -> Examples:
    """Return examples with one relevant passage per question, without hard negatives."""
    n = len(passage_of_question)
    relevance = relevance_of([{int(passage)} for passage in passage_of_question], int(passage_of_question.max()) + 1)
    lengths = np.ones(n, dtype=int) if lengths is None else lengths
    given_ = {"passages": passage_of_question[:, None].astype(np.int32), "in_batch_negatives": True, **changes}
    return Examples(np.arange(n), relevance=relevance, lengths=lengths, **given_)


@st.composite
def make_overlapping_examples(draw: st.DrawFn) -> Examples:
    """Return examples of questions with several relevant passages, and with random negatives."""
    n_passages = draw(st.integers(1, 30))
    passage = st.integers(0, n_passages - 1)
    relevant = draw(st.lists(st.sets(passage, min_size=1, max_size=3), min_size=1, max_size=40))
    pairs = [(question, p) for question, passages in enumerate(relevant) for p in passages]
    question_rows, positives = zip(*pairs, strict=True)
    n_negatives = draw(st.integers(0, 3))
    negative = st.lists(st.integers(-1, n_passages - 1), min_size=n_negatives, max_size=n_negatives)
    rows = [[positive, *draw(negative)] for positive in positives]
    lengths = draw(st.lists(st.integers(0, 500), min_size=len(rows), max_size=len(rows)))
    relevance = relevance_of(relevant, n_passages)
    passages = np.array(rows, dtype=np.int32)
    return Examples(np.array(question_rows), passages, relevance, np.array(lengths), in_batch_negatives=True)


def sampler_on(examples: Examples, **options: Any) -> Any:
    return make_sampler(examples, **options)(examples.question, batch_size=1, drop_last=False, seed=99)


def epoch_of(sampler: Any, epoch: int) -> list[Batch]:
    sampler.set_epoch(epoch)
    return list(sampler)


def as_sets(batches: list[Batch]) -> set[frozenset[int]]:
    return {frozenset(batch) for batch in batches}


def parts_of(batches: list[Batch], size: int) -> list[list[Batch]]:
    return [batches[start : start + size] for start in range(0, len(batches), size)]


def has_no_false_negatives(examples: Examples, batch: Batch) -> bool:
    """A second implementation, from the definition."""
    rows = [(row, examples.passages[row].tolist()) for row in batch]
    standing = [(row, position, p) for row, passages in rows for position, p in enumerate(passages) if p >= 0]
    relevant = [(row, p) for row in batch for p in examples.relevance[[examples.question[row]]].indices.tolist()]
    own = {(row, p) for row, position, p in standing if position == 0}
    passages = [p for _, _, p in standing]
    return len(set(passages)) == len(passages) and all(p not in passages or (row, p) in own for row, p in relevant)


@pytest.mark.parametrize(
    ("passages", "relevant", "fits"),
    [
        ([[0], [1]], [{0}, {1}], True),
        ([[0], [0]], [{0}, {0}], False),  # one passage twice
        ([[0], [1]], [{0, 1}, {1}], False),  # the second's is relevant to the first
        ([[0, 2], [1, 2]], [{0}, {1}], False),  # one negative twice
        ([[0, 1], [1, 2]], [{0}, {1}], False),  # a negative that is the other's positive
        ([[0, 2], [1, 3]], [{0}, {1, 2}], False),  # a negative that is relevant to the other
        ([[0, -1], [1, -1]], [{0}, {1}], True),  # in-batch negatives are off
    ],
)
def test_batches_compatible_examples_together(passages: list[list[int]], relevant: list[set[int]], fits: bool) -> None:
    relevance = relevance_of(relevant, 4)
    rows = np.array(passages, dtype=np.int32)
    examples = Examples(np.arange(2), rows, relevance, np.ones(2), in_batch_negatives=True)
    assert has_no_false_negatives(examples, [0, 1]) is fits
    assert as_sets(epoch_of(sampler_on(examples, batch_size=2), 0)) == as_sets([[0, 1]] if fits else [[0], [1]])


@pytest.mark.parametrize("row", [[0, 1, 1], [0, 0, 2], [0, 1, 3]])
def test_leaves_out_and_counts_invalid_examples(row: list[int]) -> None:
    relevance = relevance_of([{0, 3}, {4}], 6)
    examples = Examples(np.arange(2), np.array([row, [4, 5, -1]]), relevance, np.ones(2), in_batch_negatives=True)
    sampler = sampler_on(examples, batch_size=2)
    assert [epoch_of(sampler, epoch) for epoch in range(2)] == [[[1]], [[1]]]
    assert sampler.left_out == 1


@settings(deadline=None)
@given(make_overlapping_examples(), st.integers(1, 12), st.integers(0, 3))
def test_overlapping_examples_occur_once_per_epoch_without_false_negatives(
    examples: Examples, batch_size: int, seed: int
) -> None:
    sound = [row for row in range(len(examples.question)) if has_no_false_negatives(examples, [row])]
    if not sound:
        with pytest.raises(ValueError, match="make no batch"):
            sampler_on(examples, batch_size=batch_size, seed=seed)
        return
    sampler = sampler_on(examples, batch_size=batch_size, seed=seed)
    for epoch in range(EPOCHS):
        batches = epoch_of(sampler, epoch)
        assert len(batches) == len(sampler)
        assert sorted(chain(*batches)) == sound
        assert sampler.left_out == len(examples.question) - len(sound)
        assert all(len(batch) <= batch_size and has_no_false_negatives(examples, batch) for batch in batches)
        spare = [row for batch in batches if len(batch) > 2 for row in batch]
        alone = [batch for batch in batches if len(batch) == 1]
        assert not any(has_no_false_negatives(examples, [*batch, row]) for batch in alone for row in spare)


@settings(deadline=None)
@given(st.lists(st.integers(0, 20), min_size=1, max_size=150), st.integers(1, 20), st.integers(0, 3))
def test_independent_examples_fill_fewest_equal_batches(passages: list[int], batch_size: int, seed: int) -> None:
    examples = plain(np.array(passages), np.array(passages))
    sampler = sampler_on(examples, batch_size=batch_size, seed=seed)
    largest = max(passages.count(passage) for passage in passages)
    assert len(sampler) == max(largest, -(-len(passages) // batch_size))
    for epoch in range(EPOCHS):
        batches = epoch_of(sampler, epoch)
        assert sorted(chain(*batches)) == list(range(len(passages)))
        assert max(map(len, batches)) - min(map(len, batches)) <= 1
        assert all(has_no_false_negatives(examples, batch) for batch in batches)


def test_adds_batches_for_a_frequent_passage() -> None:
    rng = np.random.default_rng(0)
    passages = np.concatenate([np.full(60, 400), rng.integers(0, 400, 3000), np.full(90, 401)])
    examples = plain(passages, np.concatenate([np.full(60, 900), rng.integers(1, 900, 3000), np.full(90, 5000)]))
    sampler = sampler_on(examples, batch_size=50)
    assert len(sampler) == 90  # for the 90 questions; 63 would hold all
    batches = epoch_of(sampler, 1)
    assert sorted(chain(*batches)) == list(range(3150))
    assert {len(batch) for batch in batches} == {35}
    assert all(has_no_false_negatives(examples, batch) for batch in batches)


def test_rejects_mutually_exclusive_examples_for_several_processes() -> None:
    examples = plain(np.zeros(10, dtype=int))
    assert [len(batch) for batch in epoch_of(sampler_on(examples, batch_size=4), 0)] == [1] * 10
    with pytest.raises(ValueError, match="10 examples are too few for a batch of 4 and 2 processes"):
        sampler_on(examples, batch_size=4, processes=2)


@settings(deadline=None)
@given(make_overlapping_examples(), st.integers(2, 12), st.sampled_from([2, 3]))
def test_splits_valid_batches_equally_among_processes(examples: Examples, batch_size: int, processes: int) -> None:
    try:
        sampler = sampler_on(examples, batch_size=batch_size, processes=processes)
    except ValueError:
        reject()  # too few compatible examples
    for epoch in range(EPOCHS):
        parts = epoch_of(sampler, epoch)
        assert len(parts) == len(sampler)
        shards = [BatchSamplerShard(sampler, processes, rank, even_batches=False) for rank in range(processes)]
        steps = [list(step) for step in zip(*shards, strict=True)]  # the batches of each process by step
        assert steps == parts_of(parts, processes)
        for step in steps:
            whole = list(chain(*step))
            assert 0 < len(whole) <= batch_size
            assert {len(part) for part in step} == {len(whole) // processes}
            assert has_no_false_negatives(examples, whole)
        rows = list(chain(*parts))
        assert len(rows) == len(set(rows)) == len(examples.question) - sampler.left_out


def test_processes_leave_out_less_than_a_batch_and_vary_by_epoch() -> None:
    examples = plain(np.arange(1003) % 400)
    sampler = sampler_on(examples, batch_size=64, processes=4)
    missing = [set(range(1003)) - set(chain(*epoch_of(sampler, epoch))) for epoch in range(EPOCHS)]
    assert [len(rows) for rows in missing] == [1003 % 64] * EPOCHS
    assert len(set(map(frozenset, missing))) == EPOCHS


def test_epoch_depends_on_seed_and_number() -> None:
    examples = plain(np.random.default_rng(0).integers(0, 200, 1000), np.arange(1000))
    straight = sampler_on(examples, batch_size=32, seed=5)
    epochs = [epoch_of(straight, epoch) for epoch in range(EPOCHS)]
    assert epoch_of(sampler_on(examples, batch_size=32, seed=5), EPOCHS - 1) == epochs[-1]
    assert epoch_of(straight, 1) == epochs[1]
    assert epoch_of(sampler_on(examples, batch_size=32, seed=6), 1) != epochs[1]
    for before, after in pairwise(epochs):
        assert not as_sets(before) & as_sets(after)


@pytest.mark.parametrize("in_batch_negatives", [True, False])
def test_batches_similar_lengths_to_limit_padding(in_batch_negatives: bool) -> None:
    rng = np.random.default_rng(0)
    passages = rng.integers(0, 800, 4000)
    examples = plain(passages, rng.lognormal(6, 0.7, 800)[passages], in_batch_negatives=in_batch_negatives)

    def computed(batches: list[Batch]) -> float:
        return sum(float(examples.lengths[batch].max()) * len(batch) for batch in batches)

    random_batches = [batch.tolist() for batch in np.array_split(rng.permutation(4000), 125)]
    for epoch in range(EPOCHS):
        batches = epoch_of(sampler_on(examples, batch_size=32), epoch)
        assert computed(batches) < 1.5 * examples.lengths.sum() < 0.6 * computed(random_batches)
        # long batches are neither first nor last
        means = [examples.lengths[batch].mean() for batch in batches]
        assert abs(np.corrcoef(means, np.arange(len(means)))[0, 1]) < 0.5


def test_allows_repeated_passages_without_in_batch_negatives() -> None:
    examples = plain(np.zeros(64, dtype=int), np.arange(64), in_batch_negatives=False)
    batches = epoch_of(sampler_on(examples, batch_size=16), 0)
    assert [len(batch) for batch in batches] == [16] * 4
    assert sorted(chain(*batches)) == list(range(64))


def test_rejects_dataset_of_another_size() -> None:
    with pytest.raises(ValueError, match="3 rows, but there are 2 examples"):
        make_sampler(plain(np.arange(2)), batch_size=2)(range(3))


def test_trainer_uses_same_batches_after_resume(tmp_path: Path) -> None:
    from datasets import Dataset
    from sentence_transformers import SentenceTransformerTrainer, SentenceTransformerTrainingArguments
    from sentence_transformers.sentence_transformer.losses import MultipleNegativesRankingLoss

    question_set = misleading_set(questions_a_passage=3)
    questions, passages = question_set.relevance.nonzero()
    texts = [passage.text for passage in question_set.passages]
    rows = passages[:, None].astype(np.int32)
    examples = Examples(questions, rows, question_set.relevance, np.ones(len(questions)), in_batch_negatives=True)
    queries = [question_set.questions[row].text for row in questions]
    columns = {"anchor": queries, "positive": [texts[row] for row in passages]}
    columns["label"] = list(range(len(questions)))  # records the examples of the loss
    sampler = make_sampler(examples, batch_size=16, seed=3)

    class Spy(MultipleNegativesRankingLoss):
        def forward(self, sentence_features: Any, labels: Any) -> Any:
            seen.append(labels.tolist())
            return super().forward(sentence_features, labels)

    def trained(resume_from: str | None = None) -> Any:
        model = load_bi_encoder(find_model(STARTER), texts)
        model.model_card_data.generate_widget_examples = False
        settings = {"num_train_epochs": 3, "per_device_train_batch_size": 16, "save_steps": 6, "report_to": []}
        settings |= {"batch_sampler": sampler, "disable_tqdm": True}
        arguments = SentenceTransformerTrainingArguments(output_dir=str(tmp_path / "checkpoints"), **settings)
        trainer = SentenceTransformerTrainer(model, arguments, Dataset.from_dict(columns), loss=Spy(model))
        trainer.train(resume_from_checkpoint=resume_from)
        return trainer

    seen: list[Batch] = []
    trainer = trained()
    whole_run = seen
    seen = []
    epochs = parts_of(whole_run, 4)
    assert trainer.state.max_steps == len(whole_run) == 3 * 4  # 60 questions in batches of 15
    assert all(sorted(chain(*epoch)) == list(range(60)) for epoch in epochs)
    assert all(has_no_false_negatives(examples, batch) for batch in whole_run)
    assert len({frozenset(as_sets(epoch)) for epoch in epochs}) == 3

    trained(resume_from=str(tmp_path / "checkpoints" / "checkpoint-6"))  # in the middle of the second epoch
    assert seen == whole_run[6:]

    assert "batch_sampler" not in trainer.args.to_dict()
    trainer.model.save_pretrained(str(tmp_path / "model"))
    assert "`num_train_epochs`: 3" in (tmp_path / "model" / "README.md").read_text(encoding="utf-8")


def test_batches_questions_by_article_without_false_negatives() -> None:
    """Forty articles of seven passages, six questions each; lengths do not depend on the article."""
    rng = np.random.default_rng(0)
    passage = np.repeat(np.arange(280), 6)
    lengths = rng.permutation(len(passage))
    article = passage // 7
    by_article = plain(passage, lengths, article=article)

    def articles_a_batch(examples: Examples, epoch: int) -> float:
        batches = epoch_of(sampler_on(examples, batch_size=32), epoch)
        assert sorted(chain.from_iterable(batches)) == list(range(len(passage)))  # every example once
        assert all(has_no_false_negatives(examples, batch) for batch in batches)
        return float(np.mean([len(np.unique(article[batch])) for batch in batches]))

    for epoch in range(EPOCHS):
        assert articles_a_batch(by_article, epoch) * 2 < articles_a_batch(plain(passage, lengths), epoch)
    first, second = (as_sets(epoch_of(sampler_on(by_article, batch_size=32), epoch)) for epoch in (0, 1))
    assert not first & second  # each epoch combines other articles
