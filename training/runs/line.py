"""The line in which the workspace's trainings and searches for settings stand: one at a time on a machine."""

from jobs.queue import Line
from training.runs.jobs import all_jobs

LINE = Line("training", "runs", all_jobs)
