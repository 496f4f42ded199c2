"""`make attack`: damage files and let oracles judge what comes of them; a case is a format, or an area, and a seed."""

import argparse
import os
import sys
import tempfile
import time
from collections import Counter
from functools import partial
from itertools import count

from tests.hostile.areas import AREAS
from tests.hostile.oracle import FORMATS, verdict


def main() -> int:
    """Run; return 1 where something was wrong, crashed or took long, each with what repeats it."""
    cases = {name: partial(verdict, name) for name in FORMATS} | AREAS
    parser = argparse.ArgumentParser(prog="python -m tests.hostile")
    parser.add_argument("--minutes", type=float, default=30)
    parser.add_argument("--seed", type=int, default=0, help="the first case; the same seed gives the same cases")
    parser.add_argument("--only", nargs="+", choices=cases, help="some formats or areas")
    options = parser.parse_args()
    formats = options.only or list(cases)
    end = time.monotonic() + 60 * options.minutes
    failures = 0
    outcomes = Counter[tuple[str, str]]()
    for seed in count(options.seed):
        for format_ in formats:
            began = time.process_time()
            try:
                outcome, wrong = cases[format_](seed)
            except Exception as error:  # any exception is a finding
                outcome = "crashed"
                wrong = [repr(error)]
            if (seconds := time.process_time() - began) > 5:
                wrong = [*wrong, f"{seconds:.0f} seconds"]
            outcomes[format_, outcome] += 1
            failures += bool(wrong)
            if wrong:
                print(f"--only {format_!r} --seed {seed}: {wrong[0][:300]}", flush=True)
        if time.monotonic() > end:
            break
    for format_ in formats:
        counts = (f"{outcome} {number:,}" for (name, outcome), number in outcomes.items() if name == format_)
        print(f"{format_:>14}: {', '.join(counts)}")
    print(f"{outcomes.total():,} cases, {failures:,} wrong; seeds {options.seed} to {seed}")
    return int(failures > 0)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory(prefix="attacked.") as folder:
        os.environ["MRC_WORKSPACE"] = folder  # the attacked workspace belongs to no user
        sys.exit(main())
