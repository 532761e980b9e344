"""`run`: one prompt, or a session to sit in front of."""

from acp_launch.cli.wish import RunRequest


class Run(RunRequest):
    """Start an agent and ask it one thing, or sit down with it.

    The prompt is the words after the profile, or --file, or stdin. Without one, on a terminal, the session is
    interactive.
    """

    __slots__ = ()

    def carry_out(self) -> int:
        """Give the exit code of `cli.job`."""
        from acp_launch.cli.job import carry_out

        return carry_out(self)
