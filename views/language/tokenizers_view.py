"""A comparison of tokenizers as it is shown, and what those in it are called."""

from collections.abc import Mapping
from dataclasses import dataclass

from language.comparison import KeptComparison, KeptTokenizer, Request
from language.job import TokenizerRequest
from views.ui.words import word


@dataclass(frozen=True)
class TokenizersView:
    """A comparison as it is shown: what was asked for, what came out, and what models are called."""

    request: TokenizerRequest
    kept: KeptComparison
    models: Mapping[str, str]

    def name(self, one: KeptTokenizer) -> str:
        """Return what a tokenizer is called: not Markdown, a person may have named it."""
        if not one.is_trained:
            return self.models.get(one.measured.name, one.measured.name)
        trained = one.measured.trained
        return called(trained["kind"], trained["split"], trained["vocabulary"], self.request.compared)


def called(kind: str, split: str, vocabulary: int, asked: Request) -> str:
    """Return what a tokenizer that is trained is called, among all that are asked for."""
    told = [word(f"tokenizers.split_{split}")] if len(asked.splits) > 1 else []
    return " · ".join([word(f"tokenizers.kind_{kind}"), *told, f"{vocabulary:,}"])
