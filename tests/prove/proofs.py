"""What may lead a write out of ``unknown``, for the judge, and how a proof says what it saw. Shares no code with the
worker, as the judge does not."""

PROOFS = {
    "confirmed": {"there", "person"},
    "sending": {"not_there"},
    "skipped": {"not_there"},
    "cancelled": {"not_there", "person"},
    "needs_human": {"not_there", "cannot_tell"},
}
"""By the record that follows: what was read last, or a person."""
AT_ONCE = {"no_readback", "toggle", "ask", "partner_gone"}
"""Why a person is asked without a read."""


def say(what: str) -> None:
    """Says what a proof saw, where pytest shows it (-s or -rP): a proof that met nothing proves nothing."""
    print(f"\n{what}")  # noqa: T201
