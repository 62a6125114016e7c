"""The one door from the shell: `campaign-worker` and `python -m worker` both come in here.

It does nothing but hand over to the command line, so that there is one place where a process begins, and it never
parses, configures or catches anything itself.
"""

from worker.cli import main

__all__ = ["main"]

if __name__ == "__main__":
    main()
