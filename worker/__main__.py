"""The one door from the shell: `campaign-worker` and `python -m worker` both come in here.

It hands over to the command line, so that there is one place where a process begins; it parses and configures nothing
itself. Loading it costs nothing, so that an interrupt is waited for while everything else is loaded.
"""

import os
import resource

from worker.cli.signals import end_at_once

__all__ = ["main"]


def main() -> None:
    """Runs the command line of this process. An interrupt before a command is ready ends it without a word."""
    end_at_once()
    os.umask(0o077)  # whatever a command makes is its user's alone
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # passwords and tokens are in its memory
    from worker.cli.app import main as run  # noqa: PLC0415 - after the line above, which is for what this loads

    run()


if __name__ == "__main__":
    main()
