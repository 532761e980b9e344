"""The processes that launches share now, for `plan --verbose`."""

from collections.abc import Mapping, Sequence
from contextlib import suppress

from acp_launch.console.plans import SharedNow
from acp_launch.errors import StateError
from acp_launch.plan.model import StdioPlan
from acp_launch.plan.resolve import Resolved
from acp_launch.plan.shared import as_plain, leave_out_unknown, shared_server
from acp_launch.profile.load import Loaded
from acp_launch.profile.trust import trust_state
from acp_launch.secret import lookup
from acp_launch.secret.value import Outcome
from acp_launch.served.connect import compare_shared
from acp_launch.served.registry import find_server_host
from acp_launch.settings.model import Settings


def compare_shared_now(
    loaded: Loaded, resolved: Resolved, settings: Settings, secrets: Mapping[str, Outcome]
) -> Sequence[SharedNow]:
    """Return the processes that launches share, and how servers differ from them. A profile that is not trusted
    does not learn of any."""
    plan = resolved.plan
    servers = [each for each in plan.servers if isinstance(each, StdioPlan) and each.share == "user"] if plan else []
    if plan is None or not servers:
        return ()
    note = find_server_host(settings.state)
    if note is None or not trust_state(loaded, settings).is_trusted:
        return ()
    values, directories = lookup.secrets(secrets), (plan.cwd, *plan.additional_directories)
    found = list[SharedNow]()
    with suppress(StateError):  # it has just ended, or is stopped
        for server in servers:
            known, unknown = leave_out_unknown(server, values)
            for each in compare_shared(note, as_plain(shared_server(known, values, directories))):
                found.append(SharedNow(server.name, each.pid, each.labels, each.differences, unknown))
    return found
