"""What the worker talks about: ids, facts, actions, writes, records, errors.

Standard library only, frozen, and without a clock: every other layer imports these words, and none of them can do
anything by itself. It never reads, sends, stores or waits.
"""
