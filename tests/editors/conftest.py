"""A project to launch agents in."""

from tests.cli.conftest import launch

__all__ = ["launch"]  # a fixture
