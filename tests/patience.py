"""How long tests wait for what must come. They only ever wait so long when they fail."""

from acp_launch.waits import stretch

PATIENCE = stretch(10.0)  # seconds for anything
AS_USERS_WAIT = {"ACP_LAUNCH_TEST_PATIENCE": "1"}  # for what is told after seconds, and for what is waited out
