"""Compares two BM25 settings with this project: `FOLDER` in BEIR's format."""

import json
import sys
from pathlib import Path

from mrc_workbench.data.questions.read import read_file
from mrc_workbench.data.split import Part
from mrc_workbench.retrieval.comparison.compare import compare
from mrc_workbench.retrieval.comparison.experiment import Experiment
from mrc_workbench.retrieval.comparison.first_stage import BM25Spec
from mrc_workbench.retrieval.evaluation.significance import pair_tests, question_groups

if __name__ == "__main__":
    data = read_file(Path(sys.argv[1])).question_set
    settings = (BM25Spec(name="a", k1=1.2, b=0.75), BM25Spec(name="b", k1=0.9, b=0.4))
    scores = compare(Experiment(data="", split=Part.ALL, ks=(10,), retriever=settings), data).scores
    means = {name: one.means() for name, one in scores.items()}
    metrics = {name: [means[name][metric] for metric in ("ndcg@10", "recall@10", "mrr@10")] for name in scores}
    (test,) = pair_tests(scores, ["ndcg@10"], question_groups(data))
    print(json.dumps({**metrics, "p": test.p}))
