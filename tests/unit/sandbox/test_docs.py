"""docs/sandbox.md names everything that can be set, asked for or noted."""

from dataclasses import fields
from pathlib import Path
from typing import get_args

import pytest

from worker.sandbox.changes import ABOUT, EventChange, PartnerChange
from worker.sandbox.faults import KINDS, PARAMS
from worker.sandbox.settings import TwinSettings
from worker.sandbox.start import dialects
from worker.sandbox.world import ViolationKind

TEXT = (Path(__file__).resolve().parents[3] / "docs" / "sandbox.md").read_text("utf-8")
NAMES = [
    *dialects(),
    *(each.name for each in fields(TwinSettings)),
    *KINDS,
    *PARAMS,
    *({*EventChange.model_fields, *PartnerChange.model_fields} - ABOUT),
    *get_args(ViolationKind),
]
# "and for the two others"
TOLD_TOGETHER = {"campaign_optimisation_status_semantics", "ad_campaign_optimisation_status_semantics"}


@pytest.mark.parametrize("name", sorted(set(NAMES) - TOLD_TOGETHER))
def test_each_word_of_the_sandbox_is_explained(name: str) -> None:
    assert f"`{name}" in TEXT or f"`params.{name}" in TEXT, name
