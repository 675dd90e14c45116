"""Configuration: the environment, read once at start into an immutable value, or refused whole with every reason."""

from tayho.config.errors import ConfigurationRefused, Problem
from tayho.config.loading import load_settings
from tayho.config.settings import Bind, Effective, Settings

__all__ = ["Bind", "ConfigurationRefused", "Effective", "Problem", "Settings", "load_settings"]
