"""Evaluate two runs with this project: `FOLDER` in BEIR's format, and two TREC files `A` and `B`."""

import json
import sys

import mrc_workbench as mrc

if __name__ == "__main__":
    result = mrc.evaluate(sys.argv[1], {"a": sys.argv[2], "b": sys.argv[3]}, ["nDCG@10", "R@10", "RR@10"])
    (p,) = mrc.significance(result, "nDCG@10", baseline="a")["p"]
    table = result.table()
    print(json.dumps({**table.T.to_dict("list"), "p": p}))
