"""Where a secret is found, and its value once somebody needs it.

A config says ``{env: NAME}`` or ``{file: PATH}``; the value is read when it is used, so that commands that need none
run without it. A value never shows itself: not in a repr, not in an error.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from worker.model.errors import UsageError
from worker.model.exchange import SecretValue

SECRET_BYTES_MAX = 100_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Secret:
    """Where a secret is found: exactly one of the three. ``key`` names it in errors."""

    key: str = ""
    env: str | None = None
    file: Path | None = None
    literal: SecretValue | None = None


def resolve(secret: Secret, environment: Mapping[str, str]) -> SecretValue:
    """The value of a secret. Raises `UsageError` that says what is missing, never what was found."""
    if secret.literal is not None:
        return secret.literal
    if secret.env is not None:
        text = environment.get(secret.env, "")
        if not text:
            message = f"{secret.key}: the environment variable {secret.env} is not set"
            raise UsageError(message, hint=f"export {secret.env}=…, or name another one in the config")
        return SecretValue(text)
    if secret.file is None:
        raise UsageError(f"{secret.key}: the config names neither a variable nor a file")
    return SecretValue(_read(secret.key, secret.file))


def _read(key: str, file: Path) -> str:
    try:
        text = file.read_bytes()[:SECRET_BYTES_MAX].decode("utf-8").rstrip("\r\n")
    except (OSError, UnicodeDecodeError) as error:
        words = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise UsageError(f"{key}: the file {file} cannot be read: {words}") from None
    if not text:
        raise UsageError(f"{key}: the file {file} is empty")
    return text
