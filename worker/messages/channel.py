"""Hands a message to Apprise, which knows a hundred services; the only importer of it.

An address is a secret, because most of them hold one: it is never in an error, and Apprise's own log lines, which may
hold it, go nowhere.
"""

import logging
from typing import Protocol

from worker.messages.digest import Message
from worker.model.errors import UsageError


class Channel(Protocol):
    """Where messages go. ``send`` says whether it was taken, and may take seconds; it does not raise."""

    def send(self, message: Message) -> bool: ...


class AppriseChannel:
    """One Apprise address. Raises `UsageError` for one that Apprise does not know; ``key`` names it there."""

    def __init__(self, url: str, key: str) -> None:
        from apprise import Apprise  # noqa: PLC0415 - heavy, and most installations send no messages

        logging.getLogger("apprise").setLevel(logging.CRITICAL + 1)
        self._apprise = Apprise()
        if not self._apprise.add(url):
            raise UsageError(
                f"{key} is no address that Apprise knows", hint="see Apprise's list of notification services"
            )

    def send(self, message: Message) -> bool:
        """Whether the service took it; whatever goes wrong is a no."""
        from apprise import NotifyFormat  # noqa: PLC0415 - as above

        try:
            return bool(self._apprise.notify(body=message.body, title=message.title, body_format=NotifyFormat.TEXT))
        except Exception:  # noqa: BLE001 - a message that cannot be sent harms nothing
            return False
