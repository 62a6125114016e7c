"""How many files one story passes through: an audience changes, a boost is sent, its answer is lost, reads tell."""

import sys
from pathlib import Path
from types import FrameType

import worker
from tests.worlds import BOOST, Town, draft, in_town, world

FILES_MAX = 45
"""Files of worker/ in which a function is entered after the first poll; without the commands, and without the twin of
the service, which is not the worker. It only goes down."""
HOME = Path(worker.__file__).parent
NOT_THE_STORY = ("cli", "sandbox")


@in_town(world(draft("e1")), BOOST)
async def test_one_story_passes_through_few_files(here: Town) -> None:
    entered: set[str] = set()

    def note(frame: FrameType, event: str, _argument: object) -> None:
        if event == "call" and frame.f_code.co_name != "<module>":
            entered.add(frame.f_code.co_filename)

    await here.run(10)
    here.suggest("e1", 2)
    here.fault("cut_after", "POST", "/boost$")
    sys.setprofile(note)
    try:
        await here.until(lambda: here.states() == ["confirmed"], "the boost is confirmed by reading")
    finally:
        sys.setprofile(None)
    found = sorted(
        inside
        for name in entered
        if Path(name).is_relative_to(HOME)
        for inside in [Path(name).relative_to(HOME).as_posix()]
        if not inside.startswith(NOT_THE_STORY)
    )
    assert len(found) > 20, "the story was not followed"
    assert len(found) <= FILES_MAX, f"{len(found)} files:\n" + "\n".join(found)
