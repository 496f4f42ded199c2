"""What a model's work costs, also where its results come from disk."""


class Meter:
    """Seconds of a model whose results are kept: what went by in this process, and what it takes without the cache."""

    def __init__(self) -> None:
        self.load = 0.0  # seconds that loading the model took when it was last needed
        self._passed = self._work = 0.0

    def note(self, passed: float, load: float, work: float) -> None:
        """Add seconds that passed, and those of the work whose results they brought, as measured when it was done."""
        self.load = max(self.load, load)
        self._passed += passed
        self._work += work

    def lap(self) -> tuple[float, float]:
        """Return the seconds passed and those of the work since the last lap."""
        lap = self._passed, self._work
        self._passed = self._work = 0.0
        return lap
