"""`make attack`: damage files and let the oracle judge what was read of them; a case is a format and a seed."""

import argparse
import sys
import time
from collections import Counter
from itertools import count

from tests.hostile.oracle import verdict
from tests.hostile.written import FORMATS


def main() -> int:
    """Run; return 1 where something was wrong, crashed or took long, each with what repeats it."""
    parser = argparse.ArgumentParser(prog="python -m tests.hostile")
    parser.add_argument("--minutes", type=float, default=30)
    parser.add_argument("--seed", type=int, default=0, help="the first case; the same seed gives the same cases")
    parser.add_argument("--only", choices=FORMATS, help="one format")
    options = parser.parse_args()
    formats = [options.only] if options.only else list(FORMATS)
    end, failures, outcomes = time.monotonic() + 60 * options.minutes, 0, Counter[tuple[str, str]]()
    for seed in count(options.seed):
        for format_ in formats:
            began = time.process_time()
            try:
                outcome, wrong = verdict(format_, seed)
            except Exception as error:  # whatever it is, it is what is looked for
                outcome, wrong = "crashed", [repr(error)]
            if (seconds := time.process_time() - began) > 5:
                wrong = [*wrong, f"{seconds:.0f} seconds"]
            outcomes[format_, outcome] += 1
            failures += bool(wrong)
            if wrong:
                print(f"--only {format_!r} --seed {seed}: {wrong[0][:300]}", flush=True)
        if time.monotonic() > end:
            break
    for format_ in formats:
        figures = ", ".join(f"{outcome} {number:,}" for (of, outcome), number in outcomes.items() if of == format_)
        print(f"{format_:>14}: {figures}")
    print(f"{outcomes.total():,} files, {failures:,} wrong; seeds {options.seed} to {seed}")
    return int(failures > 0)


if __name__ == "__main__":
    sys.exit(main())
