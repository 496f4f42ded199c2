import ir_measures
import numpy as np
import pytest
from ir_measures import RR, R, Success, nDCG

from mrc_workbench.data.questions.read import read
from mrc_workbench.retrieval.measures import evaluate
from mrc_workbench.retrieval.rankings import top_k
from tests.data.layouts.public_layouts import LAYOUTS, NEXT, QUESTIONS, TEXTS

KS = (1, 2, 3)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("name", LAYOUTS)
def test_metrics_of_a_public_layout_equal_ir_measures(name: str, seed: int) -> None:
    question_set = read(LAYOUTS[name].content, name).question_set
    scores = np.random.default_rng(seed).normal(size=(len(question_set.questions), len(question_set.passages)))
    ours = evaluate(top_k(scores, len(question_set.passages)), question_set, KS).means()
    places = [str(TEXTS.index(passage.text)) for passage in question_set.passages]
    run = {
        str(QUESTIONS.index(question.text)): dict(zip(places, row.tolist(), strict=True))
        for question, row in zip(question_set.questions, scores, strict=True)
    }
    qrels = {str(row): {str(row): 1} for row in range(len(QUESTIONS))}
    if LAYOUTS[name].not_relevant:
        qrels = {question: {**judged, str(NEXT[int(question)]): 0} for question, judged in qrels.items()}
    kinds = {"recall": R, "hit": Success, "mrr": RR, "ndcg": nDCG}
    theirs = {f"{kind}@{k}": measure @ k for kind, measure in kinds.items() for k in KS}
    expected = ir_measures.calc_aggregate([*theirs.values()], qrels, run)
    assert {key: ours[key] for key in theirs} == pytest.approx({key: expected[one] for key, one in theirs.items()})
