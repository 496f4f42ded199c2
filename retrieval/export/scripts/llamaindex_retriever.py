"""The search of this folder as a retriever of LlamaIndex: `FolderRetriever().retrieve("a question")`."""

import sys
from collections.abc import Callable
from typing import Any

from llama_index.core.retrievers import BaseRetriever
from llama_index.core.schema import NodeWithScore, QueryBundle, TextNode
from plain import PlainSearch


class FolderRetriever(BaseRetriever):
    """Finds the best `k` passages as nodes with their scores, higher is better; the metadata tell the title."""

    def __init__(self, k: int = 10, search: Callable[..., Any] | None = None) -> None:
        self._k = k
        self._search = search or PlainSearch()
        super().__init__()

    def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        return [
            NodeWithScore(
                node=TextNode(id_=passage.id, text=passage.text, metadata={"title": passage.title}), score=score
            )
            for passage, score in self._search(query_bundle.query_str, self._k)
        ]


if __name__ == "__main__":
    try:
        retriever = FolderRetriever()
    except ModuleNotFoundError as error:
        sys.exit(str(error))
    for result in retriever.retrieve(sys.argv[1]):
        sys.stdout.write(f"{result.score:.4f} {result.node.node_id} {result.node.get_content()[:80]}\n")
