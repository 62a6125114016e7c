"""The page: what the ledger holds, for people who prefer looking to reading, and the door for their decisions.

It reads the ledger and nothing else, and it cannot send: a decision is given to the commands' own code, through a port.
``door`` decides who may ask, ``app`` answers, ``pages`` asks the ledger, ``views``, ``timeline`` and ``charts`` are
pure and make what is shown, ``metrics`` speaks to Prometheus, and ``server`` runs it all beside the daemon on a thread
of its own. No answer contains a secret, and everything that came from outside is shown as text.
"""
