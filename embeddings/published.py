"""Figures that others published, to lay beside one's own. None was measured here.

They are of other models, trained on other machines with other settings: orientation, no test.
"""

from dataclasses import dataclass
from typing import Literal

HAM = "Ham et al. 2020, KorNLI and KorSTS, arXiv:2004.03289"
KR_BERT_SIMCSE = "github.com/jeongukjae/KR-BERT-SimCSE"
REIMERS = "Reimers & Gurevych 2019, Sentence-BERT, arXiv:1908.10084"


@dataclass(frozen=True)
class Published:
    """A correlation from -1 to 1 that others published, of the named part of a set as its publisher split it."""

    model: str
    learned_from: str  # empty: no sentence pairs
    data: Literal["KorSTS", "KLUE-STS"]
    part: Literal["validation", "test"]
    measure: Literal["spearman", "pearson"]
    value: float
    source: str
    encoder: Literal["bi-encoder", "cross-encoder"] = "bi-encoder"
    ours: bool = False


def _korsts(model: str, learned_from: str, validation: float, test: float, source: str) -> tuple[Published, Published]:
    return (
        Published(model, learned_from, "KorSTS", "validation", "spearman", validation, source),
        Published(model, learned_from, "KorSTS", "test", "spearman", test, source),
    )


PUBLISHED = (
    *_korsts("SRoBERTa base", "", 0.6334, 0.4896, HAM),
    *_korsts("SRoBERTa base", "KorNLI", 0.7648, 0.7419, HAM),
    *_korsts("SRoBERTa base", "KorSTS", 0.8368, 0.7894, HAM),
    *_korsts("SRoBERTa base", "KorNLI, then KorSTS", 0.8354, 0.8029, HAM),
    Published("RoBERTa base", "KorSTS", "KorSTS", "test", "spearman", 0.8300, HAM, "cross-encoder"),
    *_korsts("KR-BERT SimCSE", "", 0.7999, 0.7325, KR_BERT_SIMCSE),
    *_korsts("KR-BERT SimCSE", "KorNLI", 0.8488, 0.8072, KR_BERT_SIMCSE),
    # its authors give Pearson's correlation for KLUE-STS, and Spearman's for KorSTS
    Published("KR-BERT SimCSE", "", "KLUE-STS", "validation", "pearson", 0.7445, KR_BERT_SIMCSE),
    Published("KR-BERT SimCSE", "KorNLI", "KLUE-STS", "validation", "pearson", 0.7942, KR_BERT_SIMCSE),
)


def published_for(data: str, part: str) -> tuple[Published, ...]:
    """Figures of a set of this name, in any case and with whatever parts of it the name tells, and of this part."""
    name = data.casefold().replace("_", "-").replace("korsts", "KorSTS").replace("klue-sts", "KLUE-STS")
    return tuple(one for one in PUBLISHED if one.data in name and one.part == part)
