"""The rivals' side of a benchmark that goes turn by turn: a number of works on stdin, their milliseconds on stdout."""

import json
import os
import sys
from collections.abc import Callable


def serve(work: Callable[[int], list[float]]) -> None:
    """Does as many works as each line asks for, until there is none; what libraries print meanwhile goes to stderr."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    print(json.dumps("ready"), file=answers, flush=True)
    for line in sys.stdin:
        print(json.dumps(work(int(line))), file=answers, flush=True)
