"""The untrained mix as a teacher of a batch's passages."""

from dataclasses import replace

import numpy as np
import pytest

from mrc_workbench.data.split import SplitOptions
from mrc_workbench.data.store import find
from mrc_workbench.training.ranker_options import BI_ENCODER, BiEncoderObjective, BiEncoderOptions
from mrc_workbench.training.recipes.examples import encoder_examples
from mrc_workbench.training.recipes.passage_windows import CANDIDATES_PER_QUESTION, MixTeacher
from mrc_workbench.training.recipes.training_data import TrainingData
from tests.training.worlds import tiny_base

pytestmark = pytest.mark.slow


@pytest.fixture
def teacher() -> MixTeacher:
    objective = BiEncoderObjective.MULTIPLE_NEGATIVES
    base = tiny_base(BI_ENCODER)
    options = BiEncoderOptions(base=base, objective=objective, shared_passages=True, mix_loss_weight=0.5)
    data = TrainingData.from_question_set(find("sample"), SplitOptions(), options)
    data = replace(data, train=data.train.with_questions(np.arange(20)))
    _, examples = encoder_examples(options, data)
    assert examples.shared
    return MixTeacher(base, data, examples)


def test_label_scores_each_candidate_once(teacher: MixTeacher) -> None:
    progress: list[float] = []
    labels = np.array(teacher.labels(progress.append))
    assert progress[-1] == 1.0
    assert labels.shape == (len(teacher.examples.question), 1 + 2 * CANDIDATES_PER_QUESTION)
    positives = labels[:, 0]
    candidates = labels[:, 1 : 1 + CANDIDATES_PER_QUESTION]
    scores = labels[:, 1 + CANDIDATES_PER_QUESTION :]
    assert positives.tolist() == teacher.examples.passages[:, 0].tolist()
    assert (candidates == positives[:, None]).any(axis=1).all()
    assert all(len(set(row)) == CANDIDATES_PER_QUESTION for row in candidates.astype(int).tolist())
    assert np.isfinite(scores).all()
    np.testing.assert_allclose(scores.mean(axis=1), 0, atol=1e-4)
    # relevant passages score above the candidates' mean, without labels
    assert scores[candidates == positives[:, None]].mean() > 1.0
    assert np.array(teacher.placeholder_labels()).shape == labels.shape


def test_probabilities_cover_batch_candidates() -> None:
    import torch

    from mrc_workbench.training.recipes.losses import MIX_TEMPERATURE, mix_probabilities

    labels = torch.tensor([[7, 7, 3, -1, 1.0, 0.5, 0.0], [9, 3, 9, 5, -0.2, 2.0, 0.1]])
    shares = mix_probabilities(labels, torch.tensor([7, 9, 3, 8]))
    first = torch.softmax(torch.tensor([1.0, 0.5]) / MIX_TEMPERATURE, dim=0)
    second = torch.softmax(torch.tensor([2.0, -0.2]) / MIX_TEMPERATURE, dim=0)
    expected = torch.tensor([[first[0], 0, first[1], 0], [0, second[0], second[1], 0]])
    torch.testing.assert_close(shares, expected)


def test_mix_loss_favours_mix_ranking() -> None:
    import torch

    from mrc_workbench.models.loading import load_bi_encoder
    from mrc_workbench.models.sources import find_model
    from mrc_workbench.training.recipes.losses import SharedPassagesLoss

    model = load_bi_encoder(find_model(tiny_base(BI_ENCODER)), []).eval()
    features = [model.preprocess(["달은", "강은"]), model.preprocess(["달은 밝다", "강은 흐른다"])]
    by_labels = SharedPassagesLoss(model, 0.05)(features).item()
    sure = torch.tensor([[0, 0, 1, 9.0, -9.0], [1, 0, 1, -9.0, 9.0]])  # the mix agrees with the labels
    assert SharedPassagesLoss(model, 0.05, 0.5)(features, sure).item() == pytest.approx(by_labels, rel=1e-4)
    contrary = torch.tensor([[0, 0, 1, -9.0, 9.0], [1, 0, 1, 9.0, -9.0]])
    assert SharedPassagesLoss(model, 0.05, 0.5)(features, contrary).item() > by_labels + 0.01
