"""Imports every command, which registers it on the app. Kept out of `app` so that the two do not import each other."""


def register() -> None:
    """Makes all commands known."""
    from worker.cli import (  # noqa: F401, PLC0415 - imported for what they register, and they import the app
        again,
        approve,
        check,
        demo,
        halt,
        ledger,
        log,
        resolve,
        run,
        sandbox,
        schema,
        status,
        test,
        undo,
        writes,
    )
