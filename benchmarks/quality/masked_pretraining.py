"""What a small BERT learns from scratch of KorQuAD's passages, with its own tokenizer, on a laptop's processor."""

import os
from dataclasses import replace

from benchmarks.material import korquad
from benchmarks.quality.article_split import finished, workspace
from data.split import SplitOptions
from language.corpus import find_corpus
from language.masking.perplexity import FOLLOWED, GUESSED, PERPLEXITY
from training.language.family import LANGUAGES, UNIGRAM
from training.options.language_model import LANGUAGE_MODEL, LanguageObjective, LanguageOptions
from training.runs.runs import Run, all_runs, create_run, new_plan

_SHARES = SplitOptions(validation=0.1, test=0.1)
# small batches: of so few passages a larger one would make too few steps to leave the frequencies behind
_NEW = replace(LanguageOptions.suited_to(), batch_size=16, epochs=16.0, evaluation_steps=200)
_PAIRS = LanguageObjective.MLM_NSP


def measure() -> list[str]:
    """Train new models with and without pairs; returns a Markdown table."""
    with workspace():
        new = {
            f"new, {_NEW.size} size": _trained(_NEW),
            "new, and pairs": _trained(replace(_NEW, objective=_PAIRS)),
        }
        for run in new.values():
            if run.scores()["after"][PERPLEXITY] >= run.scores()[UNIGRAM][PERPLEXITY]:
                raise RuntimeError(f"{run.id} learned nothing that frequencies do not tell")
        made = next(iter(new.values())).provenance()["data"]
        lines = [
            f"| {made['documents']:,} passages | perplexity, held out | 95% | hidden tokens guessed "
            "| next segments told | 95% | minutes |",
            "|---|---:|---:|---:|---:|---:|---:|",
        ]
        for name, run in new.items():
            rows = LANGUAGES.rows(run.plan().options, run.scores())
            lines += [_row(run, of, f"{called.strip('*')}: {name}") for of, called in rows.items()]
    return [
        *lines,
        "",
        f"On {os.cpu_count()} CPU cores, with loading and measuring; {made['vocabulary']:,} pieces. Rows of pairs hide "
        "other tokens. Whether a segment is the next one is right by chance in half of the cases.",
    ]


def _trained(options: LanguageOptions) -> Run:
    """Return the run of these options, where there is one as far as it has come, and finish it."""
    corpus = find_corpus(str(korquad()))
    known = (one for one in all_runs() if one.plan().options == options)
    run = next((one for one in known if one.plan().fingerprint == corpus.fingerprint), None)
    if run is None:
        data = (str(korquad()), corpus.name, corpus.fingerprint)
        run = create_run(new_plan(LANGUAGE_MODEL, LANGUAGE_MODEL, data, _SHARES, options))
    return finished(run)


def _row(run: Run, of: str, name: str) -> str:
    told, ends = run.scores()[of], run.scores()["intervals"][of]
    minutes = f"{run.status().spent / 60:.0f}" if of == "after" else ""
    cells = [f"{told[PERPLEXITY]:,.0f}", _between(ends[PERPLEXITY]), f"{told[GUESSED] * 100:.1f}"]
    if FOLLOWED in told:
        cells += [f"{told[FOLLOWED] * 100:.1f}", _between([100 * end for end in ends[FOLLOWED]], 1)]
    else:
        cells += ["", ""]
    return f"| {name} | {' | '.join([*cells, minutes])} |"


def _between(ends: list[float], digits: int = 0) -> str:
    return f"{ends[0]:,.{digits}f} to {ends[1]:,.{digits}f}"
