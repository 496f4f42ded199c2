"""The same three questions in the layouts of public datasets, with invented content and the expected results."""

import json
from collections.abc import Callable
from typing import Any, NamedTuple

TITLES = ("사과", "배", "감")
TEXTS = ("사과는 가을에 붉게 익는다.", "배는 나주에서 많이 난다.", "감은 말려서 곶감을 만든다.")
QUESTIONS = ("사과는 언제 익나?", "배는 어디에서 나나?", "감으로 무엇을 만드나?")
ANSWERS = ("가을", "나주", "곶감")
STARTS = (4, 3, 7)
ROWS = range(3)
NEXT = (1, 2, 0)  # the passage after the relevant one


class PublicLayout(NamedTuple):
    """A file and its expected content; passages with grade 0 are `not_relevant`."""

    content: bytes
    not_relevant: int = 0
    titles: int = 3
    answered: int = 3
    questions: tuple[str, ...] = QUESTIONS
    texts: tuple[str, ...] = TEXTS


def _json(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=False).encode()


def _jsonl(rows: list[Any]) -> bytes:
    return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows).encode()


def _rows(row: Callable[[int], Any]) -> list[Any]:
    return [row(number) for number in ROWS]


def _answer(row: int) -> dict[str, Any]:
    return {"text": ANSWERS[row], "answer_start": STARTS[row]}


def squad(row: int) -> dict[str, Any]:
    question = {"id": f"s{row}", "question": QUESTIONS[row], "answers": [_answer(row)], "is_impossible": False}
    return {"title": TITLES[row], "paragraphs": [{"context": TEXTS[row], "qas": [question]}]}


def korquad_2(row: int) -> dict[str, Any]:
    answer = _answer(row) | {"html_answer_start": STARTS[row] + 20, "html_answer_text": ANSWERS[row]}
    html = f"<html><body><p>{TEXTS[row]}</p></body></html>"
    article = {"title": TITLES[row], "url": f"https://example.com/{row}", "context": TEXTS[row], "raw_html": html}
    return article | {"qas": [{"question": QUESTIONS[row], "answer": answer, "id": str(row)}]}


def cmrc_2018(row: int) -> dict[str, Any]:
    question = {"query_text": QUESTIONS[row], "query_id": f"TRAIN_{row}_QUERY_0", "answers": [ANSWERS[row]] * 2}
    return {"context_id": f"TRAIN_{row}", "context_text": TEXTS[row], "title": TITLES[row], "qas": [question]}


def coqa(row: int) -> dict[str, Any]:
    span = {"span_start": STARTS[row], "span_end": STARTS[row] + 2, "span_text": ANSWERS[row]}
    file = f"{TITLES[row]}.txt"
    story = {"source": "wikipedia", "id": f"3{row}x", "filename": file, "story": TEXTS[row]}
    questions = [{"input_text": QUESTIONS[row], "turn_id": 1}]
    answers = [{**span, "input_text": ANSWERS[row], "turn_id": 1}]
    return {**story, "questions": questions, "answers": answers, "name": file}


def quac_of_hugging_face(row: int) -> dict[str, Any]:
    answers = {"texts": [[ANSWERS[row]]], "answer_starts": [[STARTS[row]]]}
    section = {"wikipedia_page_title": TITLES[row], "section_title": "개요", "context": TEXTS[row]}
    turns = {"turn_ids": [f"C_{row}_q#0"], "questions": [QUESTIONS[row]], "followups": [2]}
    return {"dialogue_id": f"C_{row}", **section, **turns, "answers": answers}


def ai_hub() -> bytes:
    def document(row: int) -> dict[str, Any]:
        question = {"question_id": f"q{row}", "question": QUESTIONS[row], "question_type": 1, "is_impossible": False}
        answers = {**_answer(row), "clue_text": "", "clue_start": None}
        paragraph = {"context_id": f"c{row}", "context": TEXTS[row], "qas": [{**question, "answers": answers}]}
        return {"doc_id": f"d{row}", "doc_title": TITLES[row], "doc_source": "신문", "paragraphs": [paragraph]}

    dataset = {"identifier": "TEXT_MRC", "name": "기계독해", "src_path": "/dataset"}
    return _json({"Dataset": dataset, "data": _rows(document)})


def hotpot_qa(row: int) -> dict[str, Any]:
    context = [[TITLES[number], [TEXTS[number]]] for number in (row, NEXT[row])]
    question = {"_id": f"5a{row}", "answer": ANSWERS[row], "question": QUESTIONS[row]}
    support = {"supporting_facts": [[TITLES[row], 0]], "context": context}
    return {**question, **support, "type": "bridge", "level": "easy"}


def hotpot_qa_of_hugging_face(row: int) -> dict[str, Any]:
    original = hotpot_qa(row)
    titles, sentences = zip(*original["context"], strict=True)
    facts = {"title": [TITLES[row]], "sent_id": [0]}
    context = {"title": titles, "sentences": sentences}
    return {"id": original.pop("_id"), **original, "supporting_facts": facts, "context": context}


def musique(row: int) -> dict[str, Any]:
    paragraphs = [
        {"idx": index, "title": TITLES[number], "paragraph_text": TEXTS[number], "is_supporting": number == row}
        for index, number in enumerate((row, NEXT[row]))
    ]
    parts = [{"id": 1, "question": "첫째 물음", "answer": ANSWERS[row], "paragraph_support_idx": 0}]
    question = {"id": f"2hop__{row}", "paragraphs": paragraphs, "question": QUESTIONS[row]}
    answer = {"answer": ANSWERS[row], "answer_aliases": [], "answerable": True}
    return {**question, "question_decomposition": parts, **answer}


def dpr(row: int) -> dict[str, Any]:
    positive, negative = (
        {"title": TITLES[number], "text": TEXTS[number], "score": 12.5, "title_score": 0, "passage_id": f"10{number}"}
        for number in (row, NEXT[row])
    )
    question = {"dataset": "nq_train_psgs_w100", "question": QUESTIONS[row], "answers": [ANSWERS[row]]}
    return {**question, "positive_ctxs": [positive], "negative_ctxs": [], "hard_negative_ctxs": [negative]}


def flag_embedding(row: int) -> dict[str, Any]:
    return {"query": QUESTIONS[row], "pos": [TEXTS[row]], "neg": [TEXTS[NEXT[row]]], "type": "normal"}


def _msmarco_passages(row: int) -> list[dict[str, Any]]:
    return [
        {"is_selected": int(number == row), "passage_text": TEXTS[number], "url": f"https://example.com/{number}"}
        for number in (NEXT[row], row)
    ]


def ms_marco_1() -> bytes:
    rows = _rows(lambda row: {**ms_marco_2(row), "passages": _msmarco_passages(row), "wellFormedAnswers": "[]"})
    return _json({name: {str(number): row[name] for number, row in enumerate(rows)} for name in rows[0]})


def ms_marco_2(row: int) -> dict[str, Any]:
    passages = _msmarco_passages(row)
    columns = {name: [passage[name] for passage in passages] for name in passages[0]}
    query = {"query": QUESTIONS[row], "query_id": 1000 + row, "query_type": "DESCRIPTION"}
    return {"answers": [ANSWERS[row]], "passages": columns, **query, "wellFormedAnswers": []}


def llama_index_examples(row: int) -> dict[str, Any]:
    by = {"model_name": "", "type": "human"}
    example = {"query": QUESTIONS[row], "reference_contexts": [TEXTS[row]], "reference_answer": ANSWERS[row]}
    return {**example, "query_by": by, "reference_answer_by": by}


def llama_index_dictionaries() -> bytes:
    queries = {f"q{row}": QUESTIONS[row] for row in ROWS}
    corpus = {f"node{row}": TEXTS[row] for row in ROWS}
    relevant = {f"q{row}": [f"node{row}"] for row in ROWS}
    return _json({"queries": queries, "corpus": corpus, "relevant_docs": relevant, "mode": "text"})


def three_dictionaries() -> bytes:
    queries = {f"q{row}": QUESTIONS[row] for row in ROWS}
    documents = {f"d{row}": {"title": TITLES[row], "text": TEXTS[row]} for row in ROWS}
    qrels = {f"q{row}": {f"d{row}": 1, f"d{NEXT[row]}": 0} for row in ROWS}
    return _json({"queries": queries, "documents": documents, "qrels": qrels})


def ragas_0_1(row: int) -> dict[str, Any]:
    question = {"question": QUESTIONS[row], "contexts": [TEXTS[row]], "ground_truth": ANSWERS[row]}
    return {**question, "evolution_type": "simple", "metadata": [{"source": "fruit.md"}], "episode_done": True}


def ragas_0_2(row: int) -> dict[str, Any]:
    question = {"user_input": QUESTIONS[row], "reference_contexts": [TEXTS[row]], "reference": ANSWERS[row]}
    return {**question, "synthesizer_name": "single_hop_specific_query_synthesizer"}


def deepeval_goldens(row: int) -> dict[str, Any]:
    question = {"input": QUESTIONS[row], "actual_output": None, "expected_output": ANSWERS[row]}
    return {**question, "context": [TEXTS[row]], "retrieval_context": None, "source_file": "fruit.md"}


def dureader(row: int) -> dict[str, Any]:
    documents = [
        {
            "is_selected": number == row,
            "title": TITLES[number],
            "most_related_para": 0,
            "segmented_title": [TITLES[number]],
            "segmented_paragraphs": [TEXTS[number].split()],
            "paragraphs": [TEXTS[number]],
            "bs_rank_pos": index,
        }
        for index, number in enumerate((NEXT[row], row))
    ]
    question = {"question": QUESTIONS[row], "segmented_question": QUESTIONS[row].split(), "answers": [ANSWERS[row]]}
    kind = {"question_type": "DESCRIPTION", "question_id": 186_000 + row, "fact_or_opinion": "FACT"}
    return {"documents": documents, "answer_spans": [[0, 1]], **question, **kind}


def bio_asq(row: int) -> dict[str, Any]:
    url = f"http://www.ncbi.nlm.nih.gov/pubmed/{row}"
    section = {"beginSection": "abstract", "endSection": "abstract"}
    offsets = {"offsetInBeginSection": 0, "offsetInEndSection": len(TEXTS[row])}
    snippet = {"text": TEXTS[row], "document": url, **section, **offsets}
    answers = {"exact_answer": [ANSWERS[row]], "ideal_answer": [f"{ANSWERS[row]}이다."]}
    question = {"body": QUESTIONS[row], "documents": [url], "snippets": [snippet], **answers}
    return {**question, "type": "factoid", "id": f"55{row}"}


def finance_bench(row: int) -> dict[str, Any]:
    page = {"evidence_page_num": 3, "evidence_text_full_page": f"{TEXTS[row]} 그 밖의 글."}
    evidence = {"evidence_text": TEXTS[row], "doc_name": TITLES[row], **page}
    report = {"financebench_id": f"fb_{row}", "company": "과수원", "doc_name": TITLES[row]}
    question = {"question": QUESTIONS[row], "answer": ANSWERS[row], "justification": ""}
    return {**report, **question, "evidence": [evidence], "question_type": "metrics-generated"}


def trivia_qa(row: int) -> dict[str, Any]:
    pages = {"doc_source": ["TagMe"], "filename": [f"{row}.txt"], "title": [TITLES[row]], "wiki_context": [TEXTS[row]]}
    results = {"description": [], "filename": [], "rank": [], "title": [], "url": [], "search_context": []}
    source = {"question_id": f"tc_{row}", "question_source": "http://www.example.com/"}
    answer = {"aliases": [ANSWERS[row]], "value": ANSWERS[row], "type": "WikipediaEntity"}
    return {"question": QUESTIONS[row], **source, "entity_pages": pages, "search_results": results, "answer": answer}


def kilt(row: int) -> dict[str, Any]:
    provenance = {"wikipedia_id": str(row), "title": TITLES[row], "section": "개요", "text": TEXTS[row]}
    output = {"answer": ANSWERS[row], "meta": {}, "provenance": [provenance]}
    return {"id": f"k{row}", "input": QUESTIONS[row], "output": [output], "meta": {}}


LAYOUTS: dict[str, PublicLayout] = {
    "SQuAD 2.0": PublicLayout(_json({"version": "v2.0", "data": _rows(squad)})),
    "KorQuAD 2.0": PublicLayout(_json({"version": "KorQuAD_2.0_train", "data": _rows(korquad_2)})),
    "CMRC 2018": PublicLayout(_json(_rows(cmrc_2018))),
    "CoQA": PublicLayout(_json({"version": "1.0", "data": _rows(coqa)}), titles=0),
    "QuAC of Hugging Face": PublicLayout(_jsonl(_rows(quac_of_hugging_face))),
    "AI Hub": PublicLayout(ai_hub()),
    "HotpotQA": PublicLayout(_json(_rows(hotpot_qa)), not_relevant=3),
    "HotpotQA of Hugging Face": PublicLayout(_jsonl(_rows(hotpot_qa_of_hugging_face)), not_relevant=3),
    "MuSiQue": PublicLayout(_jsonl(_rows(musique)), not_relevant=3),
    "DPR": PublicLayout(_json(_rows(dpr)), not_relevant=3),
    "FlagEmbedding": PublicLayout(_jsonl(_rows(flag_embedding)), not_relevant=3, titles=0, answered=0),
    "MS MARCO 1.1": PublicLayout(ms_marco_1(), not_relevant=3, titles=0),
    "MS MARCO 2.1": PublicLayout(_jsonl(_rows(ms_marco_2)), not_relevant=3, titles=0),
    "LlamaIndex examples": PublicLayout(_json({"examples": _rows(llama_index_examples)}), titles=0),
    "LlamaIndex dictionaries": PublicLayout(llama_index_dictionaries(), titles=0, answered=0),
    "Three dictionaries": PublicLayout(three_dictionaries(), not_relevant=3, answered=0),
    "ragas 0.1": PublicLayout(_jsonl(_rows(ragas_0_1)), titles=0),
    "ragas 0.2": PublicLayout(_jsonl(_rows(ragas_0_2)), titles=0),
    "deepeval": PublicLayout(_json(_rows(deepeval_goldens)), titles=0),
    "DuReader": PublicLayout(_jsonl(_rows(dureader)), not_relevant=3),
    "BioASQ": PublicLayout(_json({"questions": _rows(bio_asq)}), titles=0),
    "FinanceBench": PublicLayout(_jsonl(_rows(finance_bench))),
    "TriviaQA": PublicLayout(_jsonl(_rows(trivia_qa))),
    "KILT": PublicLayout(_jsonl(_rows(kilt))),
}
