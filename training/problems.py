"""What can be wrong with a training, for reasons a person can do something about."""


class TrainingError(Exception):
    """A training that cannot go on. `code` names the reason: the key `failure.<code>` of the locale files."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code
