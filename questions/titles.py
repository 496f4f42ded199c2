"""Titles that ask: each asks for all the passages of its article."""

from collections import defaultdict
from collections.abc import Iterator

from data.records import Passages
from questions.draft import Draft, drawn
from questions.options import MakerOptions


def title_drafts(passages: Passages, options: MakerOptions) -> Iterator[Draft]:
    """Yield the titles, one draft a passage, in the order of the corpus.

    They are hidden: passages are trained on without titles, or a model would learn to compare two equal lines.
    """
    rows_of: defaultdict[str, list[int]] = defaultdict(list)
    for row, title in enumerate(passages.titles):
        if title.strip():
            rows_of[title.strip()].append(row)
    titles = list(rows_of)
    for number in drawn(len(titles), options.most, options.seed):
        for row in rows_of[titles[number]]:
            yield Draft(titles[number], row, hidden=True)
