"""Keep this process's own memory and environment from other processes of the same user, as far as the kernel helps."""

from acp_launch.process import prepare

_SET_DUMPABLE = 4  # prctl(2)


def hide() -> None:
    """
    No core dump, no ptrace, no /proc/PID/environ or mem for anybody but root. Children are not affected: exec undoes
    it. Linux only. Agents run as the same user, and the variables that hold secrets are in our environment.
    """
    if prepare.IS_LINUX:
        import ctypes

        ctypes.CDLL(None).prctl(_SET_DUMPABLE, 0, 0, 0, 0)
