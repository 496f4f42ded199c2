"""Evaluate two runs with PyTerrier: `FOLDER` in BEIR's format, and two TREC files `A` and `B`."""

import json
import sys
from pathlib import Path

import pandas as pd
import pyterrier as pt
from pyterrier.measures import RR, R, nDCG

if __name__ == "__main__":
    folder = Path(sys.argv[1])
    queries = pd.read_json(folder / "queries.jsonl", lines=True, dtype={"_id": str})
    topics = queries.rename(columns={"_id": "qid", "text": "query"})[["qid", "query"]]
    qrels = pd.read_csv(folder / "qrels" / "test.tsv", sep="\t", dtype={"query-id": str, "corpus-id": str})
    qrels.columns = pd.Index(["qid", "docno", "label"])
    runs = [pt.io.read_results(path) for path in sys.argv[2:]]
    metrics = [nDCG @ 10, R @ 10, RR @ 10]
    table = pt.Experiment(runs, topics, qrels, metrics, names=["a", "b"], baseline=0, test="t")
    values = table.set_index("name")[[str(metric) for metric in metrics]]
    print(json.dumps({**values.T.to_dict("list"), "p": table["nDCG@10 p-value"][1]}))
