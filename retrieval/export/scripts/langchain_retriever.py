"""The search of this folder as a retriever of LangChain: `LangChainFolderRetriever().invoke("a question")`."""

import sys
from typing import Any

from langchain_core.callbacks import CallbackManagerForRetrieverRun
from langchain_core.documents import Document
from langchain_core.retrievers import BaseRetriever
from plain import PlainSearch
from pydantic import Field


class LangChainFolderRetriever(BaseRetriever):
    """Returns the top `k` passages; the metadata of each contain its title and score (higher is better)."""

    k: int = 10
    search: Any = Field(default_factory=PlainSearch)

    def _get_relevant_documents(self, query: str, *, run_manager: CallbackManagerForRetrieverRun) -> list[Document]:
        del run_manager
        return [
            Document(page_content=hit.text, id=hit.passage_id, metadata={"title": hit.title, "score": hit.score})
            for hit in self.search(query, self.k).itertuples()
        ]


if __name__ == "__main__":
    try:
        retriever = LangChainFolderRetriever()
    except ModuleNotFoundError as error:
        sys.exit(str(error))
    for document in retriever.invoke(sys.argv[1]):
        sys.stdout.write(f"{document.metadata['score']:.4f} {document.id} {document.page_content[:80]}\n")
