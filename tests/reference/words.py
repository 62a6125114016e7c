"""Words for what no registry explains: exit codes, fields of a record, keys of a rule test.

The gate compares the keys with what the code really has, so that none is missing and none is left over.
"""

from collections.abc import Mapping
from typing import Final

from worker.model.errors import NotFound, NotSafe, UsageError

EXIT_CODES: Final[Mapping[int, str]] = {
    0: "done",
    NotFound.exit_code: (
        "what was asked about does not hold (`status --healthy`, `log --verify`, a failed rule test), or an id is "
        "unknown or in the wrong state; then nothing was changed"
    ),
    UsageError.exit_code: "wrong usage, config or rule; nothing was started",
    NotSafe.exit_code: (
        "not safe to run: the ledger is held by another process, cannot be written, is newer or older than the program "
        "expects, was restored or lost; or the credentials were refused or no partner was found at start"
    ),
    130: "interrupted with Ctrl-C",
}

LOG_FIELDS: Final[Mapping[str, str]] = {
    "chain": "in a fleet the partner in whose chain the record is; else empty",
    "replica": "in a fleet the process that wrote it; else empty",
    "seq": "number of the record in its chain, without holes",
    "at": "when, UTC, with milliseconds",
    "partner": "the partner's id",
    "event": "the event's id",
    "rule": "the rule's id",
    "episode": "which time of being true, or which change, of this rule and event",
    "write": "number of the write",
    "attempt": "which attempt of the write",
    "action": "the action in the rule's `do`",
    "kind": "what sort of record: [kinds](#kinds-of-records)",
    "reason": "why, as a code: [reasons](#reasons)",
    "why": "the same in words, with the values that decided",
    "request": "on `sending`: method, address and body, without secrets",
    "before": "on `sending`: the target's value before the write",
    "response": "what was answered: status, `x_request_id`, `retry_after`, `took_ms`; or `error`",
    "evidence": "what one read showed: `get`, `read_at`, `status`, `x_request_id`, `value`, and `says`: `there`, "
    "`not_there` or `cannot_tell`",
    "facts": "on `fired`: the facts that the condition used, each with the time it was read",
    "by": "who: the user of the system for an operator's decision (`user worker` for one of that name), else `worker`",
    "prev": "hash of the record before",
    "hash": "hash of this record and the one before; `log --verify` recomputes all of them",
}

TEST_KEYS: Final[Mapping[str, str]] = {
    "name": "what the test claims",
    "rules": "ids of the rules under test; without it all of them",
    "given": "facts before the first poll, by name",
    "answers": "what attempts meet instead of success, for the whole test or from one step on",
    "steps": "the moments of the test, in order of time",
    "steps.at": "time since the first poll; `0s` is the first poll itself",
    "steps.set": "facts that change right before this look",
    "steps.unknown": "facts that cannot be read from here on",
    "steps.answers": "as above, from this step on",
    "steps.approve": "rules whose waiting writes somebody lets go right before this look",
    "steps.reject": "rules whose waiting writes somebody drops right before this look",
    "steps.expect": "exactly what fired since the step before: `rule`, `action`, and `event` or `params` where they "
    "matter; without `params` it stands for all the writes of an action with `each`, or of an `undo`",
    "steps.held": "rules that are held back now: `rule`, `reason`, and `event` where it matters",
    "steps.states": "writes and the state they are in now: `action`, `state`, and `rule` or `event` where they matter",
    "steps.sent": "how many attempts have been sent so far",
    "answers.action": "the action whose next attempt meets this",
    "answers.answer": "a status, or `timeout`, `cut`, `no_connection`, `crash`",
    "answers.effect": "`hidden` (it took effect all the same), `none`, or `late` and a duration",
}

WRITE_FIELDS: Mapping[str, str] = {
    "at": "when it was confirmed; with `each` the last confirmation",
    "action": "its action",
    "before": "what its target was before: a value, or a record; unknown where `each` made more than one write",
    "wanted": "what its target shall be, in the same form",
}
"""The fields of the fact `write`."""
