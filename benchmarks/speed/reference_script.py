"""A script with the libraries' defaults, without this project: `FILE BI_ENCODER CROSS_ENCODER DEPTH WEIGHT`.

The last printed line is JSON: the seconds of each stage, and the recall of each retriever.
"""

import json
import sys
from time import perf_counter

TAGS = ("N", "V", "M", "XR", "SL", "SH", "SN")  # content words
K = 100


def main(file: str, bi_encoder: str, cross_encoder: str, depth: int, weight: float) -> None:
    """Read, search with four retrievers, evaluate and print."""
    stages = {}
    start = perf_counter()
    passages, questions, relevant = read(file)
    stages["reading"] = perf_counter() - start

    start = perf_counter()
    bm25 = search_bm25(passages, questions)
    stages["BM25"] = perf_counter() - start

    start = perf_counter()
    dense = search_dense(passages, questions, bi_encoder)
    stages["Dense"] = perf_counter() - start

    start = perf_counter()
    hybrid = [
        fuse(bm25_ranking, dense_ranking, weight) for bm25_ranking, dense_ranking in zip(bm25, dense, strict=True)
    ]
    stages["Hybrid"] = perf_counter() - start

    start = perf_counter()
    reranked = rerank(passages, questions, bm25, cross_encoder, depth)
    stages["Reranked"] = perf_counter() - start

    start = perf_counter()
    rankings = {"BM25": bm25, "Dense": dense, "Hybrid": hybrid, "Reranked": reranked}
    table = {
        name: {f"recall@{k}": recall(ranking, relevant, k) for k in (1, 5, 10, 20, 50, 100)}
        for name, ranking in rankings.items()
    }
    stages["measuring"] = perf_counter() - start
    print(json.dumps({"seconds": stages, "table": table}))


def read(file: str) -> tuple[list[str], list[str], list[int]]:
    """Read SQuAD's layout; returns passages, questions, and the row of the relevant passage of each question."""
    with open(file, encoding="utf-8") as opened:  # noqa: PTH123 - as the documentation of `json` shows it
        data = json.load(opened)["data"]
    passages: list[str] = []
    questions: list[str] = []
    relevant: list[int] = []
    row_of_passage: dict[str, int] = {}
    for article in data:
        for paragraph in article["paragraphs"]:
            text = article["title"] + "\n" + paragraph["context"]
            if text not in row_of_passage:
                row_of_passage[text] = len(passages)
                passages.append(text)
            for question in paragraph["qas"]:
                questions.append(question["question"])
                relevant.append(row_of_passage[text])
    return passages, questions, relevant


def search_bm25(passages: list[str], questions: list[str]) -> list[list[int]]:
    """Index morphemes with rank-bm25, and sort all passages by score, one question at a time."""
    import numpy as np
    from kiwipiepy import Kiwi
    from rank_bm25 import BM25Okapi

    kiwi = Kiwi()

    def tokenize(text: str) -> list[str]:
        return [token.form for token in kiwi.tokenize(text) if token.tag.startswith(TAGS)]

    index = BM25Okapi([tokenize(passage) for passage in passages])
    return [np.argsort(-index.get_scores(tokenize(question)))[:K].tolist() for question in questions]


def search_dense(passages: list[str], questions: list[str], model_name: str) -> list[list[int]]:
    """Encode passages and questions, and search a flat index."""
    import faiss
    from sentence_transformers import SentenceTransformer

    model = SentenceTransformer(model_name)
    vectors = model.encode(passages, normalize_embeddings=True)
    index = faiss.IndexFlatIP(vectors.shape[1])
    index.add(vectors)
    _, indices = index.search(model.encode(questions, normalize_embeddings=True), K)
    return indices.tolist()  # type: ignore[no-any-return]


def fuse(first: list[int], second: list[int], weight: float) -> list[int]:
    """Fuse two rankings of a question by reciprocal rank; `weight` is that of the second ranking."""
    scores: dict[int, float] = {}
    for ranking, ranking_weight in ((first, 1.0), (second, weight)):
        for rank, passage in enumerate(ranking, start=1):
            scores[passage] = scores.get(passage, 0.0) + ranking_weight / (60 + rank)
    return sorted(scores, key=scores.__getitem__, reverse=True)[:K]


def rerank(
    passages: list[str], questions: list[str], first: list[list[int]], model_name: str, depth: int
) -> list[list[int]]:
    """Sort the top passages of each question by the cross-encoder's scores."""
    from sentence_transformers import CrossEncoder

    model = CrossEncoder(model_name)
    pairs = [
        (question, passages[passage])
        for question, ranking in zip(questions, first, strict=True)
        for passage in ranking[:depth]
    ]
    scores = iter(model.predict(pairs).tolist())
    reranked = []
    for ranking in first:
        scored = {passage: next(scores) for passage in ranking[:depth]}
        reranked.append(sorted(scored, key=scored.__getitem__, reverse=True) + ranking[depth:])
    return reranked


def recall(rankings: list[list[int]], relevant: list[int], k: int) -> float:
    """Return the fraction of questions with the relevant passage in the top k."""
    hits = 0
    for ranking, passage in zip(rankings, relevant, strict=True):
        if passage in ranking[:k]:
            hits += 1
    return hits / len(relevant)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4]), float(sys.argv[5]))
