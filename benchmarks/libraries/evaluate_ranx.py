"""Evaluate two runs with ranx: `FOLDER` in BEIR's format, and two TREC files `A` and `B`."""

import json
import sys
from pathlib import Path

import pandas as pd
from ranx import Qrels, Run, compare

if __name__ == "__main__":
    file = Path(sys.argv[1], "qrels", "test.tsv")
    judged = pd.read_csv(file, sep="\t", dtype={"query-id": object, "corpus-id": object})
    qrels = Qrels.from_df(judged, q_id_col="query-id", doc_id_col="corpus-id", score_col="score")
    runs = [Run.from_file(path, kind="trec", name=name) for name, path in zip("ab", sys.argv[2:], strict=True)]
    report = compare(qrels, runs, ["ndcg@10", "recall@10", "mrr@10"], stat_test="fisher", n_permutations=10_000)
    table = report.to_dict()
    metrics = {name: list(table[name]["scores"].values()) for name in ("a", "b")}
    print(json.dumps({**metrics, "p": table["a"]["comparisons"]["b"]["ndcg@10"]}))
