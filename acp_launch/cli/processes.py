"""
The verbs `ps` and `reap`: show running launches; stop processes of launches that were killed with their guard.
"""

from typing import Annotated

import typer

Json = Annotated[bool, typer.Option("--json", help="Print JSON on stdout.")]


def ps(as_json: Json = False) -> None:
    """Show your running launches and their processes."""
    from acp_launch.console.processes import show_families
    from acp_launch.process.leftovers import launch_tree
    from acp_launch.process.records import read_all
    from acp_launch.process.spawn import require_platform
    from acp_launch.settings.load import load

    require_platform()
    families = [found for launch in read_all(load().state) if (found := launch_tree(launch))]
    families.sort(key=lambda each: each.root.age if each.root else 0.0, reverse=True)
    show_families(families, as_json=as_json)


def reap(as_json: Json = False) -> None:
    """Stop processes left behind by launches that crashed."""
    from acp_launch.console.processes import show_ended
    from acp_launch.process.leftovers import clear
    from acp_launch.process.spawn import require_platform
    from acp_launch.process.workdir import sweep
    from acp_launch.settings.load import load

    require_platform()
    state = load().state
    ended = clear(state)
    sweep(state)
    show_ended(ended, as_json=as_json)
