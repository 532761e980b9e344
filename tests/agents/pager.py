"""`session/list` in pages with opaque cursors. argv: PAGES (default 3) of 2 sessions each.

`empty` sends empty pages with new cursors for ever. A cursor it did not send is -32602.
"""

import sys

sys.path.insert(0, __file__.rsplit("/", 3)[0])
from tests.agents import script

arguments = sys.argv[1:]
pages = int(next((argument for argument in arguments if argument.isdigit()), "3"))
issued: dict[str | None, int] = {None: 0}


def listed(request: script.Message) -> None:
    params = request.get("params") or {}
    page = issued.get(params.get("cursor"))
    if page is None:
        script.refuse(request, -32602, "unknown cursor")
        return
    cwd = params.get("cwd") or "/"
    sessions = [{"sessionId": f"s-{page}-{place}", "cwd": cwd, "title": f"Page {page}"} for place in range(2)]
    script.answer(request, {"sessions": [] if "empty" in arguments else sessions, **following(page)})


def following(page: int) -> dict[str, str]:
    if "empty" not in arguments and page + 1 >= pages:
        return {}
    cursor = f"=opaque/{page}+="
    issued[cursor] = page + 1
    return {"nextCursor": cursor}


script.serve(
    {
        "initialize": lambda request: script.initialize(request, sessionCapabilities={"list": {}}),
        "session/list": listed,
    }
)
