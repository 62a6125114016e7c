"""Where the messages of rules go: into the log of the daemon, as a line of their own.

That a message was handed over, and its text, is in the action log, from which whoever asked to be told under `notify:`
in the config is told (`worker.messages`): so a message is lost by no restart, and no mail server holds a rule up.
"""

from worker.logs import logger
from worker.model.exchange import Message


class LogNotifier:
    """Takes every message."""

    async def hand_over(self, message: Message) -> None:
        """One line, at the level of what a person should see."""
        logger().warning(
            "message",
            text=message.text,
            partner=message.partner,
            event_id=message.event,
            rule=message.rule,
            write=int(message.write),
        )
