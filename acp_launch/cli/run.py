"""The verb `run`: runs one prompt, or an interactive session."""

from acp_launch.cli.wish import RunRequest


class Run(RunRequest):
    """Run a prompt, or start an interactive session.

    The prompt is the words after the profile, or --file, or stdin. Without one, on a terminal, the session is
    interactive.
    """

    __slots__ = ()

    def carry_out(self) -> int:
        """Run the request with `cli.job` and return its exit code."""
        from acp_launch.cli.job import carry_out

        return carry_out(self)
