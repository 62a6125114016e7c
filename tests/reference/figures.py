"""The part of docs/reference.md about figures: every metric, from the table that makes them."""

from tests.reference.spelling import table
from worker.web.metrics import METRICS, PREFIX


def figures() -> str:
    """Every figure that ``/metrics`` has."""
    about = (
        f"`/metrics` of the page has them for Prometheus, each with `{PREFIX}` in front. Alert rules and a dashboard "
        "are in `deploy/`.\n"
    )
    rows = [(f"`{name}`", words) for name, words in METRICS.items()]
    return "\n".join(("## Figures\n", about, table(("figure", "what it is"), rows)))
