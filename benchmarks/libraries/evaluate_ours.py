"""Evaluates two runs with this project: `FOLDER` in BEIR's format, and two TREC files `A` and `B`."""

import json
import sys
from pathlib import Path

from mrc_workbench.data.questions.read import read_file
from mrc_workbench.retrieval.evaluation.measures import evaluate
from mrc_workbench.retrieval.evaluation.significance import pair_tests, question_groups
from mrc_workbench.retrieval.trec import read_run

if __name__ == "__main__":
    data = read_file(Path(sys.argv[1])).question_set
    runs = {"a": sys.argv[2], "b": sys.argv[3]}
    scores = {name: evaluate(read_run(Path(run), data)[0], data, (10,)) for name, run in runs.items()}
    means = {name: one.means() for name, one in scores.items()}
    metrics = {name: [means[name][metric] for metric in ("ndcg@10", "recall@10", "mrr@10")] for name in runs}
    (test,) = pair_tests(scores, ["ndcg@10"], question_groups(data))
    print(json.dumps({**metrics, "p": test.p}))
