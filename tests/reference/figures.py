"""The parts of docs/reference.md about figures and alarms, from the tables that make them."""

from tests.reference.spelling import table
from worker.model.commits import ALARMS
from worker.web.metrics import METRICS, PREFIX


def figures() -> str:
    about = (
        f"`/metrics` of the page has them for Prometheus, each with `{PREFIX}` in front. Alert rules and a dashboard "
        "are in `deploy/`.\n"
    )
    rows = [(f"`{name}`", words) for name, words in METRICS.items()]
    return "\n".join(("## Figures\n", about, table(("figure", "what it is"), rows), _alarms()))


def _alarms() -> str:
    about = (
        "What the daemon cries out beside the log: on stderr and, where `notify` in the config names it, as a message. "
        "What to do about each is in [operating.md](operating.md).\n"
    )
    rows = [(f"`{name}`", words) for name, words in ALARMS.items()]
    return "\n".join(("## Alarms\n", about, table(("alarm", "means"), rows)))
