"""What went wrong for a reason that a person is told."""

from typing import Any, Self


class Failure(Exception):  # noqa: N818 - its kinds are the errors
    """Something that cannot be done. `code` names the reason, a key of the locale files, and `details` fill its fields.

    The message is for commands and logs: plain English, with what to do next.
    """

    def __init__(self, code: str, message: str, **details: str | int) -> None:
        super().__init__(message)
        self.code, self.details = code, details

    def as_dict(self) -> dict[str, object]:
        """Return what `from_dict` makes it of again."""
        return {**self.details, "error": str(self), "code": self.code}

    @classmethod
    def from_dict(cls, content: dict[str, Any]) -> Self:
        """Make it of what was written; a reason that nobody foresaw has no code."""
        details = {name: value for name, value in content.items() if name not in ("error", "code")}
        return cls(content.get("code", ""), content["error"], **details)
