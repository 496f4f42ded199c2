"""Exercise the core in an environment without extras: `python core_scenario.py FOLDER`.

The script works in a new folder with decoy modules named like the packages of the project. It reads a dataset in six
formats, compares BM25 with an imported TREC run by `mrc compare`, tests the difference, and checks that no library of
an extra is imported. It prints the seconds by step as a line of JSON. The module imports only the standard library.
"""

import csv
import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

DECOYS = ("data", "models", "jobs", "text", "retrieval", "training", "labs", "workbench", "views", "serving")
# large libraries of the extras, and libraries that training and tokenizers require
ABSENT = (
    *("torch", "streamlit", "transformers", "sentence_transformers", "faiss", "datasets", "sklearn", "tokenizers"),
    *("huggingface_hub", "accelerate", "peft", "openai", "fastapi", "vl_convert", "umap", "onnxruntime", "pymilvus"),
)
PASSAGES = (
    "자격루는 장영실이 세종의 명으로 만든 물시계이다.",
    "측우기는 비가 내린 양을 재는 기구이다.",
    "앙부일구는 해의 그림자로 시간을 재는 해시계이다.",
    "훈민정음은 1446년에 반포되었다.",
    "거북선은 이순신이 임진왜란에서 쓴 군함이다.",
    "팔만대장경은 해인사에 보관되어 있다.",
)
QUESTIONS = (
    ("자격루를 만든 사람은 누구인가?", "장영실"),
    ("비의 양을 재는 기구는 무엇인가?", "측우기"),
    ("해시계의 이름은 무엇인가?", "앙부일구"),
    ("훈민정음은 언제 반포되었는가?", "1446년"),
    ("이순신이 쓴 군함은 무엇인가?", "거북선"),
    ("팔만대장경은 어디에 보관되어 있는가?", "해인사"),
)
EXPERIMENT = """
data = "questions.csv"
ks = [1, 3]
[[retriever]]
name = "BM25"
kind = "bm25"
analyzer = "kiwi"
[[retriever]]
name = "Imported"
kind = "run"
path = "run.trec"
"""


def main() -> None:
    """Run all steps, and stop at the first error."""
    folder = Path(sys.argv[1])
    seconds = dict[str, float]()
    folder.mkdir(parents=True)
    os.chdir(folder)
    os.environ.pop("MRC_WORKSPACE", None)
    sys.path.insert(0, str(folder))
    for name in DECOYS:
        Path(f"{name}.py").write_text("raise ImportError('a decoy was imported')", encoding="utf-8")

    def timed(step: str, work: Callable[[], Any]) -> Any:
        start = time.perf_counter()
        result = work()
        seconds[step] = round(time.perf_counter() - start, 3)
        return result

    timed("import", _import)
    timed("write", _write_files)
    timed("read", _read_files)
    timed("compare", _compare)
    _check_results()
    timed("api", _use_the_api)
    _check_modules()
    sys.stdout.write(json.dumps(seconds) + "\n")


def _import() -> None:
    import mrc_workbench  # noqa: F401


def _write_files() -> None:
    import pandas as pd

    rows = [
        {"id": f"q{i}", "question": question, "context": passage, "answer": answer}
        for i, ((question, answer), passage) in enumerate(zip(QUESTIONS, PASSAGES, strict=True))
    ]
    table = pd.DataFrame(rows)
    table.to_csv("questions.csv", index=False)
    table.to_excel("questions.xlsx", index=False)
    table.to_parquet("questions.parquet")
    Path("questions.json").write_text(json.dumps(rows, ensure_ascii=False), encoding="utf-8")
    Path("questions.jsonl").write_text(
        "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), encoding="utf-8"
    )
    paragraphs = [
        {
            "context": row["context"],
            "qas": [
                {
                    "id": row["id"],
                    "question": row["question"],
                    "answers": [{"text": row["answer"], "answer_start": row["context"].find(row["answer"])}],
                }
            ],
        }
        for row in rows
    ]
    squad = {"version": "1", "data": [{"title": "조선", "paragraphs": paragraphs}]}
    Path("squad.json").write_text(json.dumps(squad, ensure_ascii=False), encoding="utf-8")


def _read_files() -> None:
    from mrc_workbench.data.store import find

    for name in ("questions.csv", "questions.xlsx", "questions.parquet", "questions.json", "questions.jsonl"):
        dataset = find(name, Path.cwd())
        _require([question.text for question in dataset.questions] == [question for question, _ in QUESTIONS], name)
        _require(sorted(dataset.passages.texts) == sorted(PASSAGES), name)
    _require(len(find("squad.json", Path.cwd()).questions) == len(QUESTIONS), "squad.json")


def _compare() -> None:
    from mrc_workbench.data.store import find
    from mrc_workbench.retrieval.trec import trec_ids
    from mrc_workbench.workbench.cli import main as mrc

    # the run ranks the relevant passage second for every question
    questions, passages = trec_ids(find("questions.csv", Path.cwd()))
    lines = []
    for row, question in enumerate(questions):
        others = [index for index in range(len(passages)) if index != row]
        order = [others[0], row, *others[1:]]
        lines += [f"{question} Q0 {passages[index]} {rank} {10 - rank} other" for rank, index in enumerate(order, 1)]
    Path("run.trec").write_text("\n".join(lines) + "\n", encoding="utf-8")
    Path("experiment.toml").write_text(EXPERIMENT, encoding="utf-8")
    status = mrc(["compare", "experiment.toml", "--out", "result"])
    _require(status == 0, f"exit status {status}")
    _require((Path.cwd() / "workspace").is_dir(), "the workspace is not in the current folder")


def _check_results() -> None:
    tests = json.loads(Path("result/significance.json").read_text(encoding="utf-8"))
    (test,) = [test for test in tests if test["measure"] == "mrr@10"]
    # reciprocal ranks are 1 and 1/2 for each of the 6 questions: of 64 sign changes, 2 are as extreme
    _require((test["a"], test["b"], test["difference"]) == ("Imported", "BM25", -0.5), test)
    _require(abs(test["p"] - 2 / 64) < 1e-9, test)
    _require("Imported" in Path("result/report.html").read_text(encoding="utf-8"), "the report lacks a retriever")
    with Path("result/questions.csv").open(encoding="utf-8-sig", newline="") as file:
        _require(len(list(csv.DictReader(file))) == len(QUESTIONS), "questions.csv lacks questions")


def _use_the_api() -> None:
    import mrc_workbench as mrc

    result = mrc.compare(mrc.load("questions.csv"), ["bm25", "run.trec"], progress=False)
    table = result.table(["RR@10", "AP"])
    _require(list(table.loc["run", ["RR@10", "AP"]]) == [0.5, 0.5], table)  # one relevant passage, always second
    p = mrc.significance(result, "RR@10", baseline="run")["p"].tolist()
    _require(len(p) == 1 and abs(p[0] - 2 / 64) < 1e-9, p)
    _require("<table" in result._repr_html_(), "no table for notebooks")
    _require(result.key in mrc.comparisons().index, "the comparison is not stored")


def _check_modules() -> None:
    imported = sorted(name for name in ABSENT if name in sys.modules)
    _require(not imported, f"imported without its extra: {imported}")
    decoys = sorted(name for name in DECOYS if name in sys.modules)
    _require(not decoys, f"decoys were imported: {decoys}")


def _require(condition: bool, reason: object) -> None:
    if not condition:
        raise AssertionError(reason)


if __name__ == "__main__":
    main()
