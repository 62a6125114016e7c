"""Messages: a person hears of what only a person can end, without having to look.

``digest`` says what is told and which command comes next, groups it and never repeats it, and is pure; ``outbox`` reads
the ledger's log and hears alarms on a thread of its own, and hands messages to Apprise. Nothing of the worker waits for
a message, and one that cannot be sent harms nothing.
"""
