"""The last no before a write. The first guard that objects wins; each gives a stable reason code.

Guards are pure and know only a `Situation`. Those of `BEFORE_READING` cost nothing and come first; those of
`AFTER_READING` judge the fresh facts; `brake_in_transaction` runs inside the very transaction that records the attempt.
"""
