"""Ring 3. What the machine does to a host: a full disk (docs/up.md)."""

import shutil
import subprocess
import sys

import pytest

from tests.cli.launcher import MARK, Launcher, alive, kill_all
from tests.patience import PATIENCE

# On a state directory of one megabyte, in a mount namespace of its own; each verb's exit code is in a line.
FULL = """
mount -t tmpfs -o size=1m none "$ACP_LAUNCH_STATE_DIR" || exit 99
go() { "$PYTHON" -m acp_launch "$@" </dev/null 2>>"$SAID"; echo "exit $?"; }
go up --trust p
go run --trust p one -s work -o quiet
cat /dev/zero >"$ACP_LAUNCH_STATE_DIR/filler" 2>/dev/null
go run --trust p two -s work
go run --trust p three -s new -o quiet
rm "$ACP_LAUNCH_STATE_DIR/filler"
go run --trust p four -s work -o quiet
go down p
cat /dev/zero >"$ACP_LAUNCH_STATE_DIR/filler" 2>/dev/null
go up --trust p
"""


def test_a_full_disk_is_said_and_the_host_goes_on_once_there_is_room(launch: Launcher) -> None:
    """The answer comes also where its session cannot be stored; a host that cannot write its note does not come up."""
    unshare, said = shutil.which("unshare"), launch.project / "said"
    if unshare is None or subprocess.run([unshare, "-rm", "mount", "-t", "tmpfs", "none", "/mnt"]).returncode:
        pytest.skip("takes a mount namespace")
    launch.profile("polite")
    launch.state.mkdir(parents=True, exist_ok=True)
    env = {**launch.env, MARK: "full disk", "PYTHON": sys.executable, "SAID": str(said)}
    try:
        done = subprocess.run(
            [unshare, "-rm", "sh", "-c", FULL],
            env=env,
            cwd=launch.project,
            stdout=subprocess.PIPE,
            timeout=6 * PATIENCE,
            check=True,
        )
        assert alive("full disk") == []
    finally:
        kill_all("full disk")
    up_, one, two, new, four, down, again = _parts(done.stdout.decode())
    assert (up_, one, four, down) == (("", 0), ("You said: one\n", 0), ("You said: four\n", 0), ("", 0))
    assert two == ("You said: two\n", 3)
    assert (new[1], again[1]) == (3, 3)
    words = said.read_text()
    assert words.count("no room to write the session store") == 1
    assert "Traceback" not in words


def _parts(out: str) -> list[tuple[str, int]]:
    """What each verb printed, and its exit code."""
    found, shown = [], ""
    for line in out.splitlines(keepends=True):
        if line.startswith("exit "):
            found.append((shown, int(line.split()[1])))
            shown = ""
        else:
            shown += line
    return found
