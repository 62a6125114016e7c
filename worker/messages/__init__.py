"""Messages: a person hears of what only a person can end, without having to look.

``topics`` says what is told and which command comes next, ``digest`` groups and never repeats, both pure; ``outbox``
reads the ledger's log and hears alarms on a thread of its own; ``channel`` hands a message to Apprise. Nothing of the
worker waits for a message, and one that cannot be sent harms nothing.
"""
