"""Evaluate TREC runs and test their difference: `python examples/evaluate_trec_run.py my.qrels a.trec b.trec`.

Without arguments two small runs are written and evaluated.
"""

import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import mrc_workbench as mrc

METRICS = ["nDCG@10", "AP", "P@5", "RBP(rel=1)", "ERR@10"]


def main() -> None:
    with TemporaryDirectory() as folder:
        qrels, *runs = sys.argv[1:] or write_sample_runs(Path(folder))
        result = mrc.evaluate(qrels, {Path(run).stem: run for run in runs}, METRICS)
        print(result.table().round(4).to_string())
        print(mrc.significance(result, metric="AP").round(4).to_string(index=False))


def write_sample_runs(folder: Path) -> list[str]:
    """Write judgements of 20 topics and two runs, of which `good` ranks the relevant document higher."""
    qrels = "".join(f"{topic} 0 d{topic} 1\n" for topic in range(20))
    good = "".join(f"{topic} Q0 d{topic} 1 2.0 good\n{topic} Q0 d0 2 1.0 good\n" for topic in range(20))
    poor = "".join(f"{topic} Q0 x 1 2.0 poor\n{topic} Q0 d{topic} 2 1.0 poor\n" for topic in range(20))
    paths = []
    for name, text in (("my.qrels", qrels), ("good.trec", good), ("poor.trec", poor)):
        (folder / name).write_text(text, encoding="utf-8")
        paths.append(str(folder / name))
    return paths


if __name__ == "__main__":
    main()
