"""After the service was reset, another event may stand under an id: what was decided before is asked about anew.

A write that is planned goes out to no event that came back with a reset, unless a person has let it go since: an
approval of before was for another event. What is in flight or unsettled is settled by reading as ever, and sent again
only by a person's word.
"""

from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime

from worker.engine.edits import Edited
from worker.engine.looks import reset_before
from worker.guards.situation import No
from worker.model.memory import PartnerMemory
from worker.model.records import REASONS
from worker.model.writes import Write
from worker.writes.states import and_then, move


def decided_before(memory: PartnerMemory, write: Write, now: datetime) -> bool:
    """Whether the event came back with a reset after the write was decided on, or after a person's last word on it.

    A return that is still to come was stamped by a clock that was wrong. A write that is to be sent anew because it had
    been overtaken was decided on when it was sent.
    """
    returned = reset_before(memory, write.key.event)
    overtaken = write.last_sent_at if write.reason == "overtaken" else None
    return returned is not None and (overtaken or write.due_since) < returned <= now


def asked_anew(memory: PartnerMemory, edits: Iterable[Edited], writes: Iterable[Write], now: datetime) -> list[Edited]:
    """The edits, and what a reset makes of writes that are planned still: they wait for a person."""
    changed = {one.write.id: one for one in edits}
    for write in writes:
        edit = changed.get(write.id)
        current = write if edit is None else edit.change.after
        if current.state != "planned" or not decided_before(memory, current, now):
            continue
        why = f"decided before {REASONS['reset']}: another event may have its id now"
        if edit is None:
            change = move(write, "waiting", at=now, reason="reset", why=why, approved=False)
            changed[write.id] = Edited(write=write, change=change, left=())
        else:
            change = and_then(edit.change, "waiting", at=now, reason="reset", why=why, approved=False)
            changed[write.id] = replace(edit, change=change)
    return list(changed.values())


def reset_objection(memory: PartnerMemory, write: Write, now: datetime) -> No | None:
    """Why a write whose outcome is unknown is not sent again, whatever reads show."""
    if write.state != "unknown" or not decided_before(memory, write, now):
        return None
    why = f"sent before {REASONS['reset']}: another event may have its id now, and nothing is sent to that unasked"
    return No(way="hold", reason="reset", why=why)
