"""The page: what the ledger holds, for people who prefer looking to reading, and the door for their decisions.

It reads the ledger and nothing else, and it cannot send: a decision is the same row that an operator's command writes.
``views``, ``timeline``, ``charts``, ``filters`` and ``ruletext`` are pure and make what is shown; ``app`` answers
requests, ``door`` decides who may ask, ``acts`` takes decisions, ``metrics`` and ``health`` speak to machines, and
``server`` runs it all beside the daemon on a thread of its own. No answer contains a secret, and everything that came
from outside is shown as text.
"""
