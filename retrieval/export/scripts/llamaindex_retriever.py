"""The search of this folder as a retriever of LlamaIndex: `LlamaIndexFolderRetriever().retrieve("a question")`."""

import sys
from collections.abc import Callable
from typing import Any

from llama_index.core.retrievers import BaseRetriever
from llama_index.core.schema import NodeWithScore, QueryBundle, TextNode
from plain import PlainSearch


class LlamaIndexFolderRetriever(BaseRetriever):
    """Returns the top `k` passages as nodes with scores (higher is better); the metadata contain the title."""

    def __init__(self, k: int = 10, search: Callable[..., Any] | None = None) -> None:
        self._k = k
        self._search = search or PlainSearch()
        super().__init__()

    def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        nodes = []
        for hit in self._search(query_bundle.query_str, self._k).itertuples():
            node = TextNode(id_=hit.passage_id, text=hit.text, metadata={"title": hit.title})
            nodes.append(NodeWithScore(node=node, score=hit.score))
        return nodes


if __name__ == "__main__":
    try:
        retriever = LlamaIndexFolderRetriever()
    except ModuleNotFoundError as error:
        sys.exit(str(error))
    for result in retriever.retrieve(sys.argv[1]):
        sys.stdout.write(f"{result.score:.4f} {result.node.node_id} {result.node.get_content()[:80]}\n")
