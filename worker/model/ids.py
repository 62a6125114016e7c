"""Identifiers that must not be mixed up.

A partner id, an event id and a rule id are all strings; giving each its own type lets the type checker find the call
that hands one for another. They are never parsed here: what a partner id looks like is the business of sign-in.
"""

from typing import NewType

PartnerId = NewType("PartnerId", str)
"""Public, stable id of a tenant: ``partner-id-<slug>`` or ``<operator prefix><digits>`` (API section 2.1)."""

EventId = NewType("EventId", str)
"""``eid``, stable for the life of the event, unique only within one partner (API section 2.1)."""

RuleId = NewType("RuleId", str)
WriteId = NewType("WriteId", int)
"""Number of a write in the ledger, counted from 1."""
