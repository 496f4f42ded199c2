"""A passage as a retriever found it: what the Search page and a question of a comparison show of it."""

from collections.abc import Collection, Mapping
from itertools import starmap

from retrieval.asking import Findings
from retrieval.comparison.kinds.spec import Spec
from text.marking import MarkedText
from views.highlight import Hit
from views.ui.words import word


def hit(
    spec: Spec,
    found: Mapping[str, Findings],
    row: int,
    passage_id: str,
    texts: tuple[MarkedText, MarkedText],
    *,
    relevant: bool,
    confuser: bool = False,
) -> Hit:
    """Return the passage at `row` as a retriever found it; `found` also holds, by name, what those it wraps found."""
    place = found[spec.name].rows.index(row)
    ranks = {part: found[part].rank_of(row) if part in found else None for part in spec.parts}
    return Hit(
        rank=place + 1,
        score=f"{found[spec.name].scores[place]:.{spec.local.digits}f}",
        passage_id=passage_id,
        title=texts[0],
        text=texts[1],
        relevant=relevant,
        notes=[" · ".join(starmap(_part_rank, ranks.items()))] if len(ranks) > 1 else [],
        before=next(iter(ranks.values())) if len(ranks) == 1 else None,
        confuser=confuser,
    )


def _part_rank(name: str, rank: int | None) -> str:
    return word("search.part_rank", name=name, rank=rank) if rank else word("search.part_missing", name=name)


def right_ranks(found: Findings, relevant: Collection[int]) -> list[int]:
    """Return the ranks of the passages that answer, the first one first."""
    return sorted(rank for row in relevant if (rank := found.rank_of(row)))


def truth_line(found: Findings, relevant: Collection[int], depth: int) -> str:
    """Say where the passages that answer stand among the first `depth`."""
    ranks = right_ranks(found, relevant)
    if not ranks:
        return word("search.gold_missing", depth=depth)
    if len(relevant) == 1:
        return word("search.gold_at", rank=ranks[0])
    return word("search.gold_several", found=len(ranks), wanted=len(relevant), ranks=", ".join(map(str, ranks)))
