"""The config file: read, checked with places, and handed to the wiring as one frozen value.

It never reads the environment by itself: secrets are resolved in a step of their own, when somebody needs them.
"""

from worker.config.load import load_config, read_config, resolve
from worker.config.models import Config, SignIn, WebPage

__all__ = ["Config", "SignIn", "WebPage", "load_config", "read_config", "resolve"]
