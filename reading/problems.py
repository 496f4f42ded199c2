"""Why answers cannot be judged."""

from data.failure import Failure


class ReadingError(Failure):
    """Answers that cannot be read or judged; `code` names the reason in the locale files."""
