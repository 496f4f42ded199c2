"""Why answers cannot be generated, read or judged."""

from data.failure import Failure


class ReadingError(Failure):
    """Answers that cannot be generated, read or judged; `code` is a key of `reading.` in the locale files."""
