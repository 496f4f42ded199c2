"""A set of each published layout is scored as ir-measures scores its judgements, which are written down elsewhere."""

import ir_measures
import numpy as np
import pytest
from ir_measures import RR, R, Success, nDCG

from data.apart.exchange import File
from data.formats.text import Content
from data.questions.read import read_files
from data.records import QuestionSet
from retrieval.evaluation.measures import evaluate
from retrieval.rankings import top_k
from tests.data.layouts.written import JUDGED, LAYOUTS, PASSAGES, QUESTIONS, RELEVANT

KS = (1, 2, 3, 5)
GRADED = ("beir", "mteb", "mteb_jsonl", "trec_sgml", "trec_xml", "trec_lines", "ms_marco", "miracl", "quepid")
BINARY = ("mr_tydi", "llama_index", "ragas")
IDS = {text: id_ for id_, (_, text) in PASSAGES.items()}
ASKED = {text: id_ for id_, text in QUESTIONS.items()}


def scored(name: str, seed: int) -> tuple[QuestionSet, dict[str, float], dict[str, dict[str, float]]]:
    """What can be scored of a layout's set, our means, and the run: questions by their number, passages by id."""
    read = read_files([File(Content(content), place) for place, content in LAYOUTS[name]().items()]).question_set
    asked = read.with_questions(read.answerable)
    scores = np.random.default_rng(seed).normal(size=(len(asked.questions), len(asked.passages)))
    texts = [asked.passages[row].text for row in range(len(asked.passages))]
    run = {
        ASKED[question.text][1:]: {IDS[text]: float(score) for text, score in zip(texts, row, strict=True)}
        for question, row in zip(asked.questions, scores, strict=True)
    }
    return asked, evaluate(top_k(scores, len(texts)), asked, KS).means(), run


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("name", [*GRADED, *BINARY])
def test_a_layout_is_scored_as_ir_measures_scores_it(name: str, seed: int) -> None:
    _, ours, run = scored(name, seed)
    binary = {question: dict.fromkeys(RELEVANT[question], 1) for question in JUDGED}
    told = JUDGED if name in GRADED else binary
    judged = {question[1:]: held for question, held in told.items()}  # gdeval asks for ids that are numbers
    theirs = {f"{key}@{k}": measure @ k for k in KS for key, measure in (("recall", R), ("hit", Success), ("mrr", RR))}
    theirs |= {f"ndcg@{k}": nDCG @ k for k in KS}
    if name in GRADED:
        theirs |= {f"ndcg_exp@{k}": nDCG(dcg="exp-log2") @ k for k in KS}
    expected = ir_measures.calc_aggregate([*theirs.values()], judged, run)
    figures = {key: expected[one] for key, one in theirs.items()}
    assert {key: ours[key] for key in theirs} == pytest.approx(figures, abs=1e-5)  # gdeval prints five digits


@pytest.mark.parametrize("seed", range(5))
def test_groups_of_autorag_are_found_as_a_sum_by_hand_says(seed: int) -> None:
    """Of q1 one of d1 and d3 is needed, and d2; of q2 d5."""
    asked, ours, run = scored("autorag", seed)
    needed = {"1": [{"d1", "d3"}, {"d2"}], "2": [{"d5"}]}
    assert [ASKED[question.text] for question in asked.questions] == ["q1", "q2"]
    for k in KS:
        first = {question: sorted(found, key=lambda id_: -found[id_])[:k] for question, found in run.items()}
        shares = [
            sum(any(id_ in group for id_ in first[question]) for group in groups) / len(groups)
            for question, groups in needed.items()
        ]
        assert ours[f"recall@{k}"] == pytest.approx(sum(shares) / 2)
