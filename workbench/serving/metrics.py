"""Counts and times of requests in Prometheus's text format, version 0.0.4.

https://prometheus.io/docs/instrumenting/exposition_formats/
"""

from bisect import bisect_left
from collections.abc import Mapping
from dataclasses import dataclass, field

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)  # seconds
_HELP = {
    "mrc_requests_total": "Requests by path, method and status; 499: the client closed the connection.",
    "mrc_refusals_total": "Requests that were not answered, by the code in their JSON.",
    "mrc_request_duration_seconds": "Seconds from the head of a request to the end of its answer, by path.",
    "mrc_queries_total": "Questions that were answered, by retriever.",
    "mrc_search_duration_seconds": "Seconds that a search request waited and was searched, by retriever.",
    "mrc_connections_refused_total": "Connections closed because too many were open.",
    "mrc_connections_timed_out_total": "Connections closed because no head of a request arrived in time.",
    "mrc_connections": "Open connections.",
    "mrc_requests_in_progress": "Requests to /search that wait or are answered now.",
    "mrc_ready": "1 if /readyz answers 200, else 0.",
    "mrc_info": "1, labelled with the version and the corpus that is served.",
    "process_start_time_seconds": "Start time of the process since the Unix epoch, in seconds.",
    "process_resident_memory_bytes": "Resident memory in bytes.",
}
Labels = tuple[tuple[str, str], ...]


@dataclass
class _Histogram:
    counts: list[int] = field(default_factory=lambda: [0] * (len(_BUCKETS) + 1))
    total: float = 0.0


class Metrics:
    """Counters and histograms by name and labels. For one thread."""

    def __init__(self) -> None:
        self._counters: dict[str, dict[Labels, float]] = {}
        self._histograms: dict[str, dict[Labels, _Histogram]] = {}

    def count(self, name: str, value: float = 1, /, **labels: str) -> None:
        """Add to a counter, whose name is listed in `_HELP`."""
        of_name, key = self._counters.setdefault(name, {}), _key(labels)
        of_name[key] = of_name.get(key, 0) + value

    def observe(self, name: str, seconds: float, /, **labels: str) -> None:
        """Add a duration to a histogram."""
        histogram = self._histograms.setdefault(name, {}).setdefault(_key(labels), _Histogram())
        histogram.counts[bisect_left(_BUCKETS, seconds)] += 1
        histogram.total += seconds

    def text(self, gauges: Mapping[str, tuple[float, Mapping[str, str]]]) -> str:
        """Return everything in the text format; `gauges` are values of now, with their labels."""
        lines: list[str] = []
        for name, counters in sorted(self._counters.items()):
            lines += [*_head(name, "counter"), *(_sample(name, key, value) for key, value in sorted(counters.items()))]
        for name, histograms in sorted(self._histograms.items()):
            lines += _head(name, "histogram")
            for key, histogram in sorted(histograms.items()):
                lines += _histogram_lines(name, key, histogram)
        for name, (value, labels) in sorted(gauges.items()):
            lines += [*_head(name, "gauge"), _sample(name, _key(labels), value)]
        return "\n".join(lines) + "\n"


def _histogram_lines(name: str, key: Labels, histogram: _Histogram) -> list[str]:
    lines, below = [], 0
    for bound, count in zip((*map(repr, _BUCKETS), "+Inf"), histogram.counts, strict=True):
        below += count
        lines.append(_sample(f"{name}_bucket", (*key, ("le", bound)), below))
    return [*lines, _sample(f"{name}_sum", key, histogram.total), _sample(f"{name}_count", key, below)]


def _head(name: str, kind: str) -> list[str]:
    return [f"# HELP {name} {_HELP[name]}", f"# TYPE {name} {kind}"]


def _sample(name: str, key: Labels, value: float) -> str:
    labels = ",".join(f'{label}="{_escaped(text)}"' for label, text in key)
    number = repr(value) if isinstance(value, int) or not value.is_integer() else str(int(value))
    return f"{name}{{{labels}}} {number}" if labels else f"{name} {number}"


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"')


def _key(labels: Mapping[str, str]) -> Labels:
    return tuple(sorted(labels.items()))
