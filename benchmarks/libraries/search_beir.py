"""Compare two BM25 settings with bm25s and BEIR, which has no significance test: `FOLDER` in BEIR's format."""

import json
import sys

import bm25s
import Stemmer
from beir.datasets.data_loader import GenericDataLoader
from beir.retrieval.evaluation import EvaluateRetrieval
from pytrec_eval import RelevanceEvaluator
from scipy.stats import ttest_rel

if __name__ == "__main__":
    corpus, queries, qrels = GenericDataLoader(sys.argv[1]).load(split="test")
    stemmer = Stemmer.Stemmer("english")
    texts = [passage["text"] for passage in corpus.values()]
    passages = bm25s.tokenize(texts, stopwords=None, stemmer=stemmer, show_progress=False)
    query_tokens = bm25s.tokenize(list(queries.values()), stopwords=None, stemmer=stemmer, show_progress=False)
    evaluator = RelevanceEvaluator(qrels, {"ndcg_cut.10"})
    metrics = {}
    per_query = {}
    for name, k1, b in (("a", 1.2, 0.75), ("b", 0.9, 0.4)):
        index = bm25s.BM25(k1=k1, b=b)
        index.index(passages, show_progress=False)
        rows, scores = index.retrieve(query_tokens, corpus=list(corpus), k=100, show_progress=False)
        run = {
            query: dict(zip(ids.tolist(), values.tolist(), strict=True))
            for query, ids, values in zip(queries, rows, scores, strict=True)
        }
        ndcg, _, recall, _ = EvaluateRetrieval.evaluate(qrels, run, [10], ignore_identical_ids=False)
        mrr = EvaluateRetrieval.evaluate_custom(qrels, run, [10], metric="mrr")
        metrics[name] = [ndcg["NDCG@10"], recall["Recall@10"], mrr["MRR@10"]]
        values = evaluator.evaluate(run)
        per_query[name] = [values[query]["ndcg_cut_10"] for query in queries]
    print(json.dumps({**metrics, "p": ttest_rel(per_query["a"], per_query["b"]).pvalue}))
