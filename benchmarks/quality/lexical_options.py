"""Measure options of BM25 on KorQuAD's test articles and on the sample: `python -m benchmarks lexical_options`.

The options are a title weight, feedback, compound splitting, a dictionary of words, and synonyms. Each is added to
default BM25 as in the lab. Its value is selected on questions of other articles, even if the best one loses there; the
combination has the options that gain there. `retrieval.lexical.cut_words` proposes the dictionary from these questions
and their passages, so its gain there is optimistic. Synonyms come from brackets in the passages, which often contain
another name of the preceding word. Test questions are evaluated once.
"""

import os
import tempfile
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import regex

from benchmarks.quality.article_split import MEASURE, differences, scores, table
from benchmarks.synthetic_data import korquad
from mrc_workbench.data.questions.read import read_file
from mrc_workbench.data.records import QuestionSet
from mrc_workbench.data.split import Part, SplitOptions, split
from mrc_workbench.data.store import CATALOG, read_entry
from mrc_workbench.data.text.analyzers import Compounds
from mrc_workbench.data.text.dictionary import Dictionary, Word, format_dictionary, normalize_word
from mrc_workbench.retrieval.analysis.labs import (
    FB_DOCS,
    FB_WEIGHTS,
    TITLE_WEIGHTS,
    UNCHANGED,
    OptionChange,
    lab_results,
    lexical_lab,
    option_changes,
)
from mrc_workbench.retrieval.comparison.compare import compare
from mrc_workbench.retrieval.comparison.experiment import Experiment
from mrc_workbench.retrieval.comparison.first_stage import BM25Spec
from mrc_workbench.retrieval.comparison.spec import Spec
from mrc_workbench.retrieval.lexical.terms import CutEvidence, cut_words
from mrc_workbench.retrieval.significance import question_groups

_BRACKETS = regex.compile(r"([\p{L}\p{M}][\p{L}\p{M}\p{N}]+)\(([^()]{2,80})\)")
_SEPARATORS = regex.compile(r"[,;/·]|\bor\b|또는")
_LANGUAGE = regex.compile(r"^\s*\p{L}+(?:어|말|자)\s*:")  # "영어: United Nations"
_NAME = regex.compile(r"\p{L}[\p{L}\p{M}\p{N}.&'’-]+(?: [\p{L}\p{M}\p{N}.&'’-]+){0,2}")


def extract_synonyms(texts: Iterable[str], min_texts: int) -> Dictionary:
    """Return groups of a word and its names in brackets, if at least `min_texts` texts contain the pair.

    A name is in one group only: more frequent pairs come first.
    """
    pair_counts = Counter(pair for text in texts for pair in dict.fromkeys(_pairs(text)))
    most_frequent_first = sorted(
        (pair for pair, count in pair_counts.items() if count >= min_texts), key=lambda pair: -pair_counts[pair]
    )
    return Dictionary(synonyms=tuple(tuple(group) for group in _groups(most_frequent_first)))


def _pairs(text: str) -> Iterable[tuple[str, str]]:
    for word, inside in _BRACKETS.findall(text):
        for name in (_LANGUAGE.sub("", part).strip() for part in _SEPARATORS.split(inside)):
            if _NAME.fullmatch(name) and normalize_word(name) != normalize_word(word):
                yield word, name


def _groups(pairs: Sequence[tuple[str, str]]) -> list[list[str]]:
    groups: dict[str, list[str]] = {}  # by the name of each member
    for word, name in pairs:
        if normalize_word(name) not in groups:
            group = groups.setdefault(normalize_word(word), [word])
            group.append(name)
            groups[normalize_word(name)] = group
    return [group for name, group in groups.items() if name == normalize_word(group[0])]


_BASELINE = "BM25"
# values are selected on all articles of KorQuAD outside the test set, and on half of the small sample
_SPLITS = {
    "KorQuAD": SplitOptions(validation=99 / 140, test=40 / 140),
    "Sample": SplitOptions(validation=0.49, test=0.5),
}
_EVIDENCE = {"strongest evidence": (CutEvidence.DIFFERS,), "all evidence": tuple(CutEvidence)}
_MIN_PASSAGES = (1, 2)


class _SelectedChange(NamedTuple):
    """The best change of a kind, its value as text, and its gain on the questions that selected it."""

    kind: str
    change: OptionChange
    label: str
    gain: float


def lexical_options() -> list[str]:
    """Select options, then evaluate the test questions once; returns a table and differences per dataset."""
    lines: list[str] = []
    with tempfile.TemporaryDirectory() as folder:
        os.environ["MRC_WORKSPACE"] = folder
        sets = {"KorQuAD": read_file(korquad()).question_set, "Sample": read_entry(CATALOG["sample"]).question_set}
        for name, question_set in sets.items():
            lines += [
                *([""] if lines else []),
                f"{name}:",
                "",
                *_measure_set(question_set, _SPLITS[name], Path(folder)),
            ]
    return lines


def _measure_set(question_set: QuestionSet, parts: SplitOptions, folder: Path) -> list[str]:
    base = _experiment(parts, Part.TEST, BM25Spec(name=_BASELINE))
    kinds = {
        "title weight": option_changes(title_weight=TITLE_WEIGHTS),
        "feedback": option_changes(fb_docs=FB_DOCS, fb_weight=FB_WEIGHTS),
        "compounds": option_changes(compounds=[mode.value for mode in Compounds if mode is not Compounds.AS_READ]),
        "dictionary": option_changes(dictionary=_write_dictionaries(question_set, parts, folder)),
        "synonyms": option_changes(dictionary=_write_synonyms(question_set, folder)),
    }
    selected = [_select_change(base, kind, candidates, question_set) for kind, candidates in kinds.items()]
    tested = compare(
        base.model_copy(update={"retriever": (*base.retriever, *_test_specs(selected, folder))}), question_set
    )
    pairs = [(_BASELINE, spec.name) for spec in tested.experiment.retriever[1:]]
    summary = "; ".join(
        f"{selection.kind} {selection.label} ({selection.gain * 100:+.2f} points)" for selection in selected
    )
    return [
        *table(tested),
        "",
        f"Selected on the other articles, with the gain there: {summary}.",
        "",
        *differences(tested, *pairs),
    ]


def _write_dictionaries(question_set: QuestionSet, parts: SplitOptions, folder: Path) -> list[str]:
    """Write the dictionaries proposed by the questions outside the test set; returns their paths."""
    rows = split(question_set, parts).rows
    others = question_set.with_questions(np.sort(np.concatenate([rows[Part.TRAIN], rows[Part.VALIDATION]])))
    proposed = cut_words(others)
    paths = []
    for name, evidence in _EVIDENCE.items():
        words = tuple(Word(candidate.word) for candidate in proposed if candidate.evidence in evidence)
        paths.append(_write_dictionary(Dictionary(words), folder / f"{len(words)} words, {name}.txt"))
    return paths


def _write_synonyms(question_set: QuestionSet, folder: Path) -> list[str]:
    """Write the synonyms of the passages; returns the paths of the dictionaries."""
    dictionaries = {
        min_texts: extract_synonyms((passage.text for passage in question_set.passages), min_texts)
        for min_texts in _MIN_PASSAGES
    }
    return [
        _write_dictionary(dictionary, folder / f"{len(dictionary.synonyms)} groups from {min_texts} or more texts.txt")
        for min_texts, dictionary in dictionaries.items()
        if dictionary.synonyms
    ]


def _write_dictionary(dictionary: Dictionary, path: Path) -> str:
    path.write_text(format_dictionary(dictionary), encoding="utf-8")
    return str(path)


def _select_change(
    base: Experiment, kind: str, candidates: list[OptionChange], question_set: QuestionSet
) -> _SelectedChange:
    """Return the change of a kind that is best on the validation questions."""
    lab = compare(lexical_lab(base, _BASELINE, [candidates]), question_set)
    scores(lab)  # raises if a retriever failed
    metrics = lab_results(lab, MEASURE, question_groups(lab.question_set))
    metrics = metrics[metrics["name"] != UNCHANGED].reset_index(drop=True)
    best_row = int(metrics["value"].to_numpy().argmax())
    label = ", ".join(str(value).split("/")[-1].removesuffix(".txt") for value in candidates[best_row].values())
    return _SelectedChange(kind, candidates[best_row], label, float(metrics["difference"][best_row]))


def _test_specs(selected: list[_SelectedChange], folder: Path) -> list[Spec]:
    """Return BM25 with each selected change, and with all changes that gained."""
    specs: list[Spec] = [_changed_spec(f"{_BASELINE}, {selection.kind}", selection.change) for selection in selected]
    gaining = [selection.change for selection in selected if selection.gain > 0]
    if len(gaining) < 2:
        return specs
    together = {option: value for change in gaining for option, value in change.items()}
    paths = [Path(str(change["dictionary"])) for change in gaining if "dictionary" in change]
    if len(paths) > 1:  # words and synonyms: a retriever has one dictionary
        both = folder / "together.txt"
        both.write_text("".join(path.read_text(encoding="utf-8") for path in paths), encoding="utf-8")
        together["dictionary"] = str(both)
    return [*specs, _changed_spec(f"{_BASELINE}, all gains combined", together)]


def _changed_spec(name: str, change: OptionChange) -> Spec:
    return BM25Spec(name=name, selected_on=Part.VALIDATION, **change)


def _experiment(parts: SplitOptions, part: Part, *retrievers: Spec) -> Experiment:
    return Experiment(
        data="",
        split=part,
        validation_fraction=parts.validation,
        test_fraction=parts.test,
        ks=(1, 10),
        retriever=retrievers,
    )
