"""Compare two BM25 settings with PyTerrier and PISA: `FOLDER` in BEIR's format, and a `FOLDER` for the index."""

import json
import sys
from pathlib import Path

import pandas as pd
import pyterrier as pt
from pyterrier.measures import RR, R, nDCG
from pyterrier_pisa import PisaIndex

if __name__ == "__main__":
    folder = Path(sys.argv[1])
    corpus = pd.read_json(folder / "corpus.jsonl", lines=True, dtype={"_id": str}).rename(columns={"_id": "docno"})
    queries = pd.read_json(folder / "queries.jsonl", lines=True, dtype={"_id": str})
    topics = queries.rename(columns={"_id": "qid", "text": "query"})[["qid", "query"]]
    qrels = pd.read_csv(folder / "qrels" / "test.tsv", sep="\t", dtype={"query-id": str, "corpus-id": str})
    qrels.columns = pd.Index(["qid", "docno", "label"])
    index = PisaIndex(sys.argv[2], stemmer="porter2")
    index.index(corpus.to_dict("records"))
    retrievers = [index.bm25(k1=1.2, b=0.75, num_results=100), index.bm25(k1=0.9, b=0.4, num_results=100)]
    metrics = [nDCG @ 10, R @ 10, RR @ 10]
    table = pt.Experiment(retrievers, topics, qrels, metrics, names=["a", "b"], baseline=0, test="t")
    values = table.set_index("name")[[str(metric) for metric in metrics]]
    print(json.dumps({**values.T.to_dict("list"), "p": table["nDCG@10 p-value"][1]}))
