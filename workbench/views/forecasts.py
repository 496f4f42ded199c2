"""Which retrievers of a question set start by themselves, and what the others are expected to take.

On the sample everything starts: what takes time comes with it. On a user's own question set BM25 starts, and then, in
their order, the retrievers with which the whole comparison is still expected to end within a minute. A retriever that
was compared on the set before takes no time. See `retrieval.comparison.pace` for where the seconds come from.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from mrc_workbench.data.store import CATALOG, StoredSet
from mrc_workbench.data.workspace import workspace
from mrc_workbench.retrieval.comparison.experiment import needed
from mrc_workbench.retrieval.comparison.pace import Forecast, forecasts, in_total
from mrc_workbench.retrieval.comparison.spec import Spec
from mrc_workbench.retrieval.comparison.store import kept_comparisons
from mrc_workbench.workbench.views.resources.sets import SAMPLE, cached, question_set
from mrc_workbench.workbench.views.ui.words import duration, word

START_SECONDS = 60.0


@dataclass(frozen=True)
class Expected:
    """What the retrievers of a question set are expected to take, by name, each without what it wraps."""

    specs: Mapping[str, Spec]
    alone: Mapping[str, Forecast]
    always: str  # the retriever that starts whatever it takes

    def total(self, names: Iterable[str]) -> Forecast:
        """Return what retrievers take together with all that they wrap, each searched once."""
        return in_total([self.alone[spec.name] for spec in needed(self.specs, names)])

    def starting(self, names: Iterable[str]) -> list[str]:
        """Return those of the names that start by themselves: together they end within `START_SECONDS`."""
        selected: list[str] = []
        for name in names:
            if name == self.always or self._is_quick([*selected, name]):
                selected.append(name)
        return selected

    def label(self, name: str) -> str:
        """Return what the chip of a slow retriever says about its time; empty for one that is quick."""
        if name == self.always or self._is_quick([name]):
            return ""
        forecast = self.total([name])
        if forecast.seconds is None:
            return word("compare.time_unknown")
        key = "compare.time_about" if forecast.is_measured else "compare.time_up_to"
        return word(key, time=rounded_duration(forecast.seconds))

    def _is_quick(self, names: Iterable[str]) -> bool:
        needed_names = [spec.name for spec in needed(self.specs, names) if spec.name != self.always]
        seconds = in_total([self.alone[name] for name in needed_names]).seconds
        return seconds is not None and seconds <= START_SECONDS


def expected_on(data: StoredSet, specs: Mapping[str, Spec], always: str) -> Expected | None:
    """Return what retrievers take on a user's own question set; None on the sample, where everything starts."""
    if is_sample(data) or not data.questions:
        return None
    described = "\n".join(spec.model_dump_json() for spec in specs.values())
    alone = dict(_forecasts(data.key, described, _measured_at(), specs))
    for name in _compared(data):
        if name in alone:
            alone[name] = Forecast(0.0, is_measured=True)
    return Expected(specs, alone, always)


def is_sample(data: StoredSet) -> bool:
    return data.source == SAMPLE or data.name == CATALOG[SAMPLE].title


def rounded_duration(seconds: float) -> str:
    """Return a duration as a forecast is told: minutes without seconds."""
    if seconds < 60:
        return duration(seconds)
    minutes = round(seconds / 60)
    if minutes < 60:
        return word("time.only_minutes", minutes=minutes)
    return word("time.hours", hours=minutes // 60, minutes=minutes % 60)


@cached(max_entries=32)
def _forecasts(key: str, described: str, measured_at: float, _specs: Mapping[str, Spec]) -> dict[str, Forecast]:
    del described, measured_at  # parts of the cache key
    return forecasts(_specs, question_set(key))


def _measured_at() -> float:
    """Return when this machine last measured a reader."""
    try:
        return (workspace() / "cache" / "pace.json").stat().st_mtime
    except OSError:
        return 0.0


def _compared(data: StoredSet) -> set[str]:
    """Return the names of the retrievers that a finished comparison of this question set has metrics of."""
    compared = [one for one in kept_comparisons() if one.data_fingerprint == data.fingerprint and not one.lab]
    return {name for comparison in compared for name in comparison.figures}
