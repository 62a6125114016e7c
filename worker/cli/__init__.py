"""The commands: one file each, and `wiring`, which builds the parts and hands them in.

Data goes to stdout, everything else to stderr. Every error of the tree in `worker.model.errors` is caught at one door,
`main`, which prints what, where and what to do now, and ends with the error's exit code.
"""

from worker.cli.app import main

__all__ = ["main"]
