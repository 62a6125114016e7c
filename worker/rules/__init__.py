"""Rules: text and facts in, verdicts out.

Files are read once, checked against one registry of names, and compiled; from then on everything here is a function of
facts and time that are handed in. It never reads the service, the ledger or a clock.
"""
