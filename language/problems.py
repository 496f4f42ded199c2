"""Why a text cannot be learned from, cut or looked into."""

from data.problems import Failure


class LanguageError(Failure):
    """A text, tokenizer or language model that cannot be used; `code` is a key of `language.` in the locale files."""
