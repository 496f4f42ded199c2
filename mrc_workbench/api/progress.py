"""Progress bars in notebooks and terminals."""

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from mrc_workbench.data.terminal import quiet_libraries

OnProgress = Callable[[str, float], None]  # what is running, and the fraction of all work that is done, 0 to 1
_FORMAT = "{desc} {percentage:3.0f}%|{bar}| {elapsed}<{remaining}"


@contextmanager
def progress_bar(title: str, *, enabled: bool = True) -> Iterator[OnProgress]:
    """Yield a function that shows the progress of a job; libraries draw no bars of their own meanwhile.

    A notebook shows a widget and a terminal a line; if the standard error is a file, nothing is written.
    """
    with quiet_libraries():
        if enabled:
            yield from _bar(title)
        else:
            yield lambda *_: None


def _bar(title: str) -> Iterator[OnProgress]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # without ipywidgets a notebook gets the line of a terminal
        from tqdm.auto import tqdm

    with tqdm(total=100.0, desc=title, bar_format=_FORMAT, leave=False, disable=None) as bar:

        def report(name: str, fraction: float) -> None:
            bar.set_description_str(f"{title}: {name}" if name else title, refresh=False)
            bar.update(max(0.0, 100.0 * fraction - bar.n))

        yield report
