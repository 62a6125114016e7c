"""Tries a rule set in a process of its own before it comes into force.

Who writes rules may not stop the worker with them: what takes more memory or time to read than any rule set needs, or
ends the process that reads it, ends this one, and the rules in force stay. Argued in docs/decisions/0018.
"""

import asyncio
import os
import pickle
import resource
import signal
import sys
from asyncio.subprocess import DEVNULL, PIPE
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from worker.model.errors import InputErrors, Problem
from worker.rules.load import examined
from worker.rules.registry import Registry

OUT_OF_MEMORY = 70
"""The exit code that says so."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """What reading a rule set may take; ten thousand rules take 170 MB and 9 s. Memory is what the process writes to:
    the files that it maps, such as the locales of some systems, are larger than that."""

    memory_mb: int = 200
    cpu_s: int = 10
    wall_s: float = 30.0


USUAL = Bounds()


def for_a_child() -> dict[str, str]:
    """The environment of a child that is ourselves: it imports what this process would, and nothing of the folder in
    which it begins, which may be that of whoever writes rules."""
    return os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path)), "PYTHONSAFEPATH": "1"}


async def try_out(path: Path, texts: Mapping[str, str], registry: Registry, bounds: Bounds = USUAL) -> None:
    """Reads these texts of a rule folder in a child, which says nothing of the mistakes in them: whoever gets past this
    can find those at leisure. Raises `InputErrors` where the child does not live through it."""
    try:
        child = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", __name__),
            stdin=PIPE,
            stdout=DEVNULL,
            stderr=DEVNULL,
            env=for_a_child(),
            start_new_session=True,  # an interrupt from the terminal is for the worker, which ends the child itself
        )
    except OSError as error:
        raise _refused(path, f"no process can be started to try them: {error.strerror}") from error
    try:
        await asyncio.wait_for(child.communicate(pickle.dumps((bounds, texts, registry))), bounds.wall_s)
    except TimeoutError as error:
        raise _refused(path, f"reading them takes more than {bounds.wall_s:g} s") from error
    finally:
        if child.returncode is None:
            with suppress(ProcessLookupError):
                child.kill()
            await child.wait()
    ends = {
        OUT_OF_MEMORY: f"takes more than {bounds.memory_mb} MB of memory",
        -signal.SIGXCPU: f"takes more than {bounds.cpu_s} s of processor time",
    }
    if code := child.returncode:
        raise _refused(path, f"reading them {ends.get(code, f'ended the process that tried them ({code})')}")


def _refused(path: Path, why: str) -> InputErrors:
    message = f"the rules here were tried before they come into force, and are not taken: {why}"
    hint = "take back what was changed last; `campaign-worker check FILE` reads a single file"
    return InputErrors((Problem(file=str(path), message=message, hint=hint, code="file"),))


def main() -> None:
    """The child: reads what it is given on stdin within its bounds, and ends."""
    bounds, texts, registry = pickle.load(sys.stdin.buffer)  # noqa: S301 - of our own parent
    resource.setrlimit(resource.RLIMIT_DATA, (bounds.memory_mb * 2**20, bounds.memory_mb * 2**20))
    resource.setrlimit(resource.RLIMIT_CPU, (bounds.cpu_s, bounds.cpu_s + 1))
    try:
        examined(texts, (), registry)
    except MemoryError:
        os._exit(OUT_OF_MEMORY)


if __name__ == "__main__":
    main()
