"""Whether a name that an operator types is one the worker knows: a halt of a misspelt rule would hold nothing back.

A rule is known from the ledger, from what a daemon said that it has loaded, and from the rule files; a partner from the
ledger, the daemon or the config. Names are only looked up here; nothing is changed.
"""

from contextlib import suppress

from worker.config import Config
from worker.ledger.reading import LedgerReader
from worker.model.errors import InputErrors, NotFound
from worker.model.ids import PartnerId, RuleId
from worker.rules.load import load_rules
from worker.rules.nearest import instead, meant


def known_rules(config: Config, ledger: LedgerReader) -> set[str]:
    """Every rule that there is or was. Files that do not load are no reason not to know the others."""
    found = set(ledger.known("rule"))
    said = ledger.status()
    rules = said.body.get("rules") if said is not None else None
    loaded = rules.get("ids") if isinstance(rules, dict) else None
    found.update(str(one) for one in (loaded if isinstance(loaded, list) else ()))
    with suppress(InputErrors):
        found.update(rule.id for rule in load_rules(config.rules, config.registry).rules)
    return found


def known_partners(config: Config, ledger: LedgerReader) -> set[str]:
    """Every partner that the worker watches or watched, or is to watch."""
    found = set(ledger.known("partner")) | {str(one) for one in config.partners or ()}
    said = ledger.status()
    partners = said.body.get("partners") if said is not None else None
    return found | (set(partners) if isinstance(partners, dict) else set())


def rule_named(name: str | None, config: Config, ledger: LedgerReader) -> RuleId | None:
    """The rule of this name, None for none. Raises `NotFound` for one that nobody knows."""
    if name is None:
        return None
    known = known_rules(config, ledger)
    if name not in known:
        message = f"there is no rule '{name}'{meant(name, known)}; nothing was changed"
        raise NotFound(message, hint=f"{instead(name, known)}; without --rule everything is halted")
    return RuleId(name)


def partner_named(name: str | None, config: Config, ledger: LedgerReader) -> PartnerId | None:
    """The partner of this name, None for none. Raises `NotFound` for one that nobody knows."""
    if name is None:
        return None
    known = known_partners(config, ledger)
    if name not in known:
        message = f"there is no partner '{name}'{meant(name, known)}; nothing was changed"
        raise NotFound(message, hint=f"{instead(name, known)}; without --partner everything is halted")
    return PartnerId(name)
