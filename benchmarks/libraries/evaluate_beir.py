"""Evaluate two runs with BEIR, which has no test: `FOLDER` in its format, and two TREC files `A` and `B`."""

import json
import sys
from pathlib import Path

from beir.datasets.data_loader import GenericDataLoader
from beir.retrieval.evaluation import EvaluateRetrieval
from pytrec_eval import RelevanceEvaluator, parse_run
from scipy.stats import ttest_rel

if __name__ == "__main__":
    _, queries, qrels = GenericDataLoader(sys.argv[1]).load(split="test")
    evaluator = RelevanceEvaluator(qrels, {"ndcg_cut.10"})
    metrics = {}
    per_query = {}
    for name, path in zip("ab", sys.argv[2:], strict=True):
        with Path(path).open(encoding="utf-8") as file:
            run = parse_run(file)
        ndcg, _, recall, _ = EvaluateRetrieval.evaluate(qrels, run, [10], ignore_identical_ids=False)
        mrr = EvaluateRetrieval.evaluate_custom(qrels, run, [10], metric="mrr")
        metrics[name] = [ndcg["NDCG@10"], recall["Recall@10"], mrr["MRR@10"]]
        values = evaluator.evaluate(run)
        per_query[name] = [values[query]["ndcg_cut_10"] for query in queries]
    print(json.dumps({**metrics, "p": ttest_rel(per_query["a"], per_query["b"]).pvalue}))
