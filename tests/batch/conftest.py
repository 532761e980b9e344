from tests.cli.conftest import launch

__all__ = ["launch"]
