"""The line in which the workspace's trainings stand: one at a time on a machine."""

from jobs.line import Line
from training.runs.runs import all_runs

LINE = Line("training", "runs", all_runs)
