"""What a small BERT learns from scratch of KorQuAD's passages, with its own tokenizer, on a laptop's processor."""

import os
from dataclasses import replace

from benchmarks.korquad import korquad
from benchmarks.quality.kept_training import finished, workspace
from data.split import SplitOptions
from language.corpus import find_corpus
from language.masking import WholeWords
from language.perplexity import GUESSED, PERPLEXITY
from training.language.family import LANGUAGES, UNIGRAM
from training.options.language_model import LANGUAGE_MODEL, LanguageOptions
from training.runs.runs import Run, all_runs, create_run, new_plan

_SHARES = SplitOptions(validation=0.1, test=0.1)
# small batches: of so few passages a larger one would make too few steps to leave the frequencies behind
_OPTIONS = replace(LanguageOptions.suited_to(), batch_size=16, epochs=16.0, evaluation_steps=200)


def measure() -> list[str]:
    """Train with tokens and with whole words hidden, an epoch of each counting alike; returns a Markdown table."""
    with workspace():
        runs = {
            "tokens hidden": _trained(_OPTIONS),
            "words hidden whole": _trained(replace(_OPTIONS, whole_words=WholeWords.SPACES)),
        }
        made = next(iter(runs.values())).provenance()["data"]
        lines = [
            f"| {made['documents']:,} passages, {made['tokens']:,} tokens learned from | perplexity, held out | 95% "
            "| hidden tokens guessed | minutes |",
            "|---|---:|---:|---:|---:|",
        ]
        for name, run in runs.items():
            rows = LANGUAGES.rows(run.plan().options, run.scores())
            lines += [_row(run, of, f"{called.strip('*')}, {name}") for of, called in rows.items()]
    return [
        *lines,
        "",
        f"{_OPTIONS.size.capitalize()} size, {made['vocabulary']:,} pieces, on {os.cpu_count()} CPU cores, with "
        "loading and measuring.",
    ]


def _trained(options: LanguageOptions) -> Run:
    """Return the run of these options, where there is one as far as it has come, and finish it."""
    corpus = find_corpus(str(korquad()))
    known = (one for one in all_runs() if one.plan().options == options)
    run = next((one for one in known if one.plan().fingerprint == corpus.fingerprint), None)
    if run is None:
        data = (str(korquad()), corpus.name, corpus.fingerprint)
        run = create_run(new_plan(LANGUAGE_MODEL, LANGUAGE_MODEL, data, _SHARES, options))
    run = finished(run)
    if run.scores()["after"][PERPLEXITY] >= run.scores()[UNIGRAM][PERPLEXITY]:
        raise RuntimeError(f"{run.id} learned nothing that frequencies do not tell")
    return run


def _row(run: Run, of: str, name: str) -> str:
    told, (low, high) = run.scores()[of], run.scores()["intervals"][of][PERPLEXITY]
    minutes = f"{run.status().spent / 60:.0f}" if of == "after" else ""
    return f"| {name} | {told[PERPLEXITY]:,.0f} | {low:,.0f} to {high:,.0f} | {told[GUESSED] * 100:.1f} | {minutes} |"
