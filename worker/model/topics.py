"""What somebody can ask to be told of: kinds and reasons of the log, what the daemon cries out, and what rules say."""

from collections.abc import Mapping

from worker.model.records import KINDS, REASONS

ALARMS: Mapping[str, str] = {
    "service_unreachable": "the service cannot be reached",
    "partners_unknown": "who the partners are could not be asked",
    "partner_denied": "the service refuses a partner",
    "partner_failing": "no look at a partner has got through for a minute",
    "partner_lost": "a partner is gone from the sign-in",
    "partner_held": "a partner is not watched: it is the same as another, or may be",
    "cycle_failed": "a look ended with an error",
    "ledger_unwritable": "the ledger cannot be written, so nothing is sent",
    "defect": "a fault of this program in one write",
    "page_failed": "the page fell over",
    "sign_ins_refused": "many wrong passwords or tokens came to the page from one place",
}
"""What the daemon cries out beside the log, as its log lines name it."""
MESSAGE = "notify"
"""What a rule itself says (the action ``notify``)."""
HANDED_OVER = "handed over: "
"""How the reason begins by which a message is confirmed in the log; what follows is its text."""
TOPICS = frozenset({*KINDS, *REASONS, *ALARMS, MESSAGE})
"""Everything that ``notify: on`` takes."""
