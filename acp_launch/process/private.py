"""What other processes can see of this one, as far as the kernel lets us decide (Linux)."""

from acp_launch.process import prepare

_SET_DUMPABLE, _SET_NAME = 4, 15  # prctl(2)
_ARGUMENTS_BEGIN, _ARGUMENTS_END = 45, 46  # fields of /proc/PID/stat, counted after the name (proc(5))


def hide() -> None:
    """
    No core dump, no ptrace, no /proc/PID/environ or mem for anybody but root. Children are not affected: exec undoes
    it. Linux only. Agents run as the same user, and the variables that hold secrets are in our environment.
    """
    if prepare.IS_LINUX:
        import ctypes

        ctypes.CDLL(None).prctl(_SET_DUMPABLE, 0, 0, 0, 0)


def rename(title: str) -> None:
    """Be shown as `title` by ps(1) and found as that by pkill(1), instead of as what this process was forked from."""
    if prepare.IS_LINUX:
        import ctypes

        text = title.encode()
        ctypes.CDLL(None).prctl(_SET_NAME, text, 0, 0, 0)  # which takes 15 bytes of it
        begin, end = _arguments()
        if 0 < begin < end:
            ctypes.memset(begin, 0, end - begin)
            ctypes.memmove(begin, text, min(len(text), end - begin - 1))


def _arguments() -> tuple[int, int]:
    """Where our arguments are in our memory: /proc/PID/cmdline shows what stands there."""
    with open("/proc/self/stat", "rb", buffering=0) as file:  # noqa: PTH123
        text = file.readall()
    fields = text[text.rindex(b")") + 2 :].split()
    return int(fields[_ARGUMENTS_BEGIN]), int(fields[_ARGUMENTS_END])
