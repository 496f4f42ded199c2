"""Compare two BM25 settings with bm25s and ranx: `FOLDER` in BEIR's format."""

import json
import sys
from pathlib import Path

import bm25s
import pandas as pd
import Stemmer
from ranx import Qrels, Run, compare

if __name__ == "__main__":
    folder = Path(sys.argv[1])
    corpus = pd.read_json(folder / "corpus.jsonl", lines=True, dtype={"_id": str})
    queries = pd.read_json(folder / "queries.jsonl", lines=True, dtype={"_id": str})
    judged = pd.read_csv(folder / "qrels" / "test.tsv", sep="\t", dtype={"query-id": object, "corpus-id": object})
    qrels = Qrels.from_df(judged, q_id_col="query-id", doc_id_col="corpus-id", score_col="score")
    queries = queries[queries["_id"].isin(judged["query-id"])]
    stemmer = Stemmer.Stemmer("english")
    passages = bm25s.tokenize(list(corpus["text"]), stopwords=None, stemmer=stemmer, show_progress=False)
    query_tokens = bm25s.tokenize(list(queries["text"]), stopwords=None, stemmer=stemmer, show_progress=False)
    runs = []
    for name, k1, b in (("a", 1.2, 0.75), ("b", 0.9, 0.4)):
        index = bm25s.BM25(k1=k1, b=b)
        index.index(passages, show_progress=False)
        rows, scores = index.retrieve(query_tokens, corpus=list(corpus["_id"]), k=100, show_progress=False)
        results = {
            query: dict(zip(ids.tolist(), values.tolist(), strict=True))
            for query, ids, values in zip(queries["_id"], rows, scores, strict=True)
        }
        runs.append(Run(results, name=name))
    report = compare(qrels, runs, ["ndcg@10", "recall@10", "mrr@10"], stat_test="fisher", n_permutations=10_000)
    table = report.to_dict()
    metrics = {name: list(table[name]["scores"].values()) for name in ("a", "b")}
    print(json.dumps({**metrics, "p": table["a"]["comparisons"]["b"]["ndcg@10"]}))
