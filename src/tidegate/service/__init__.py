"""A process of a project that keeps Spark and Python warm, runs its streams when they are due, and runs commands.

`tidegate serve` is the supervisor: it forks a process for each command that is handed to it, which writes to the
terminal of whoever typed it and ends as it would have ended there.
"""
