"""The last no before a write. The first guard that objects wins; each gives a stable reason code.

Guards are pure and know only a `Situation`. Those of `before_reading` cost nothing and come first; those of
`after_reading` judge the fresh facts; `in_transaction` runs inside the very transaction that records the attempt.
"""
