"""Jobs: work in a process of its own, and the folder that says how it goes.

It lies at the bottom because every room above starts jobs: comparisons, trainings and labs. A job outlives the page or
command that started it.
"""
