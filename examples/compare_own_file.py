"""Compare retrievers on your own file: `python examples/compare_own_file.py questions.csv`."""

import sys
from pathlib import Path

import mrc_workbench as mrc

SAMPLE = Path(__file__).with_name("questions.csv")


def main() -> None:
    data = mrc.load(sys.argv[1] if len(sys.argv) > 1 else SAMPLE)
    print(data)
    for problem in data.problems:
        print("note:", problem)
    own = {"kind": "bm25", "name": "BM25, k1 = 1.6", "k1": 1.6, "b": 0.75}
    result = mrc.compare(data, ["bm25", "bm25-words", own])
    print(result.table(["nDCG@10", "R@1", "AP"]).round(4).to_string())
    print(result.differences("bm25").round(4).to_string(index=False))
    print(result["bm25"].search("물시계를 만든 사람", k=3)[["rank", "score", "text"]].to_string(index=False))
    print(f"The app lists it on the Saved tab as {result.key}")


if __name__ == "__main__":
    main()
