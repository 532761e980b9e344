"""A project to run batches in."""

from tests.cli.conftest import launch

__all__ = ["launch"]  # a fixture
