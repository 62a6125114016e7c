"""The page: what the ledger holds, for people who prefer looking to reading, and the door for their decisions.

It reads the ledger and nothing else, and it cannot send: a decision is given to the commands' own code, through a port.
``door`` decides who may ask, ``app`` answers, on a thread of its own beside the daemon, ``pages`` asks the ledger,
``views`` and ``pictures`` are pure and make what is shown, and ``metrics`` speaks to Prometheus. No answer contains a
secret, and everything that came from outside is shown as text.
"""
