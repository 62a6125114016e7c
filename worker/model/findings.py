"""What `check` and `test` can find in a file that a person wrote: one closed list of codes, with what each means.

A script or an editor goes by the code, because words may be said better one day. It names kinds of mistakes and nothing
that depends on a file.
"""

from collections.abc import Mapping
from typing import TypeAlias

Code: TypeAlias = str
CODES: Mapping[Code, str] = {
    "file": "a file or folder cannot be read",
    "yaml": "the file is not the YAML that it should be: its form, a key given twice, nesting without end",
    "config": "a key or a value of the config is wrong",
    "unused": "a key of the config that has no effect in this version",
    "key": "a key that does not exist here",
    "missing": "something is missing that must be there",
    "value": "a value of the wrong form, or not one of the few that are possible",
    "duplicate": "an id that two rules have",
    "later": "a name that is planned and not in this version",
    "fact": "a fact that does not exist, or cannot be used so",
    "field": "a field that the fact does not have",
    "action": "an action that does not exist",
    "function": "a function that does not exist, or is written wrongly",
    "syntax": "a condition that cannot be read",
    "type": "values that cannot be compared, combined or used so",
    "integer": "arithmetic of a whole number with a number from the service; CEL does not mix them",
    "presence": "a test of whether a documented field is there, which takes an unknown one for false",
    "path": "a request that a rule must not make by hand, or that the service's document does not have",
    "relative": "a value that is computed from what its own action writes, and would go on and on",
    "steps": "a condition that takes too many steps where lists are long; a warning if only where they are very long",
    "rule": "a rule that does not exist",
    "event": "an event that the test does not have",
    "reason": "a reason that does not exist",
    "state": "a state that does not exist",
    "answer": "an answer that does not exist",
    "set": "a value that the field does not have by the service's document",
    "constant": "a condition that is always or never true",
    "own_write": "a condition that looks at what its own rule writes",
    "zero": "a division by what may be 0",
    "conflict": "two rules that can want opposite things of one target",
    "ping_pong": "two rules that watch what the other writes, and may start each other without end",
    "cost": "a fact that costs a request for every event, with nothing to narrow it",
    "budget": "the rules need more requests than the budget gives in good time",
    "parameter": "a parameter that no fact of the rule takes",
    "untested": "a rule that no rule test reaches",
    "ending": "a file that is not read for its name's ending",
    "empty": "a folder or file without any rule",
    "exposed": "files of the ledger that other users of the machine may read",
}
"""Each code, and what it stands for. From ``set`` on they are warnings, as ``unused`` is."""
