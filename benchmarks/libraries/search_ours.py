"""Compare two BM25 settings with this project: `FOLDER` in BEIR's format."""

import json
import sys

import mrc_workbench as mrc

if __name__ == "__main__":
    settings = {"a": {"kind": "bm25", "k1": 1.2, "b": 0.75}, "b": {"kind": "bm25", "k1": 0.9, "b": 0.4}}
    result = mrc.compare(sys.argv[1], settings, progress=False)
    table = result.table(["nDCG@10", "R@10", "RR@10"])
    (p,) = mrc.significance(result, "nDCG@10", baseline="a")["p"]
    print(json.dumps({**table.T.to_dict("list"), "p": p}))
