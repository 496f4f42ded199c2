"""Retrievers of LangChain and LlamaIndex are searched as they are."""

from collections.abc import Sequence
from typing import Any

import pytest
from langchain_core.callbacks import CallbackManagerForRetrieverRun
from langchain_core.documents import Document
from langchain_core.embeddings import Embeddings
from langchain_core.retrievers import BaseRetriever as LangChainRetriever
from langchain_core.vectorstores import InMemoryVectorStore
from llama_index.core.base.base_retriever import BaseRetriever as LlamaIndexRetriever
from llama_index.core.schema import NodeRelationship, NodeWithScore, QueryBundle, RelatedNodeInfo, TextNode

from mrc_workbench.data.records import Passage
from mrc_workbench.retrieval.outside import OutsideError
from mrc_workbench.retrieval.outside.adapt import as_retriever, measure
from tests.doubles import PASSAGES, QUESTIONS, small_set, texts_of
from tests.retrieval.test_contract import check_contract
from tests.search_server import scored

pytestmark = pytest.mark.slow  # the libraries take seconds to import
QUERIES = texts_of(QUESTIONS)
ALPHABET = sorted({letter for text in (*QUERIES, *(passage.text for passage in PASSAGES)) for letter in text})
EXPECTED = [scored(PASSAGES, query, 1)[0][0] for query in QUERIES]


class LetterVectors(Embeddings):
    def embed_query(self, text: str) -> list[float]:
        return [float(letter in text) for letter in ALPHABET]

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        return [self.embed_query(text) for text in texts]


class LetterRetriever(LangChainRetriever):
    """Takes no k, as most LangChain retrievers: how many documents it returns is its own setting."""

    k: int = 5

    @classmethod
    def for_passages(cls, passages: Sequence[Passage]) -> "LetterRetriever":
        return cls(k=len(passages))

    def _get_relevant_documents(self, query: str, *, run_manager: CallbackManagerForRetrieverRun) -> list[Document]:
        assert run_manager.run_id
        return [Document(page_content="", metadata={"doc_id": id_}) for id_, _ in scored(PASSAGES, query, self.k)]


class Nodes(LlamaIndexRetriever):
    def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        hits = scored(PASSAGES, query_bundle.query_str, 5)
        return [NodeWithScore(node=TextNode(id_=id_, text=""), score=float(score)) for id_, score in hits]


def first_ids(item: Any, k: int = 2) -> list[str]:
    rankings = as_retriever(item, small_set()).search(QUERIES, k)
    return [PASSAGES[row].id for row in rankings.indices[:, 0]]


def test_passes_k_to_vector_store() -> None:
    documents = [Document(page_content=passage.text, id=passage.id) for passage in PASSAGES]
    store = InMemoryVectorStore.from_documents(documents, LetterVectors())
    retriever = as_retriever(store.as_retriever(search_kwargs={"k": 1}), small_set())
    assert retriever.name == "VectorStoreRetriever"
    assert (retriever.search(QUERIES, 3).indices >= 0).sum() == 3 * len(QUERIES)
    assert retriever.notes["depth"] == 3


def test_supports_retriever_without_k() -> None:
    assert first_ids(LetterRetriever()) == EXPECTED
    assert as_retriever(LetterRetriever(), small_set(), name="Mine").name == "Mine"
    assert as_retriever(LetterRetriever(k=1), small_set()).search(QUERIES, 3).indices.shape == (len(QUERIES), 3)


def test_llama_index() -> None:
    assert first_ids(Nodes()) == EXPECTED
    measured = measure(Nodes(), small_set(), k=5)
    assert measured.rankings.scores[0, 0] == scored(PASSAGES, QUERIES[0], 1)[0][1]
    assert measured.seconds_per_query > 0


def test_chunk_node_resolves_to_source_document() -> None:
    def retrieve(query: str) -> list[NodeWithScore]:
        hits = scored(PASSAGES, query, 2)
        source = [{NodeRelationship.SOURCE: RelatedNodeInfo(node_id=id_)} for id_, _ in hits]
        return [NodeWithScore(node=TextNode(text="a chunk", relationships=links), score=None) for links in source]

    assert first_ids(retrieve) == EXPECTED


def test_matches_document_without_id_by_text() -> None:
    texts = {passage.id: passage.text for passage in PASSAGES}

    def search(query: str) -> list[tuple[Document, float]]:
        return [(Document(page_content=texts[id_]), float(score)) for id_, score in scored(PASSAGES, query, 5)]

    assert first_ids(search) == EXPECTED


@pytest.mark.parametrize("item", [LetterRetriever(), Nodes()])
def test_meets_retriever_contract(item: Any) -> None:
    for k in (1, 3, 40):
        check_contract(as_retriever(item, small_set()), as_retriever(item, small_set()), PASSAGES, k)


def test_library_error_becomes_failure() -> None:
    class Broken(LetterRetriever):
        def _get_relevant_documents(self, query: str, *, run_manager: CallbackManagerForRetrieverRun) -> list[Document]:
            raise ConnectionError(f"index is closed: {query} {run_manager.run_id}")

    with pytest.raises(OutsideError, match="ConnectionError: index is closed") as error:
        first_ids(Broken())
    assert error.value.code == "outside_raised"
