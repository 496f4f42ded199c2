"""The text of an answer, made fit to be kept and to be read."""


def sound(text: str) -> str:
    """Return a text that can be written: half of a pair of surrogates, which JSON allows, becomes U+FFFD."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def without_thoughts(answer: str) -> str:
    """Return an answer without what a model that thinks aloud says before it, up to `</think>`."""
    return answer.rpartition("</think>")[2]
