"""Ring 1. What we offer is what we serve, and the schema knows every word of it."""

import itertools
import json

from acp_launch.protocol.acp import Offers
from acp_launch.protocol.conversation import Conversation
from tests.oracle import check_client_message

NAMES = Offers.__struct_fields__
EVERY = [Offers(**dict(zip(NAMES, chosen, strict=True))) for chosen in itertools.product((False, True), repeat=6)]


def test_every_combination_is_valid_and_serves_exactly_what_it_offers() -> None:
    """C-20."""
    for offers in EVERY:
        line = Conversation().initialize(offers).line
        assert check_client_message(line) == []
        said = json.loads(line)["params"]["clientCapabilities"]
        served = offers.methods
        assert said["fs"] == {
            "readTextFile": "fs/read_text_file" in served,
            "writeTextFile": "fs/write_text_file" in served,
        }
        assert said["terminal"] == any(method.startswith("terminal/") for method in served)
        assert len([method for method in served if method.startswith("terminal/")]) in (0, 5)
        assert ("elicitation" in said) == ("elicitation/create" in served)
        assert said.get("elicitation", {}).keys() == {
            mode for mode, is_on in (("form", offers.forms), ("url", offers.urls)) if is_on
        }


def test_a_terminal_login_is_offered_in_both_forms_and_only_with_a_terminal() -> None:
    """C-25."""
    assert "auth" not in Offers().as_json()
    assert "_meta" not in Offers().as_json()
    assert Offers().as_json()["session"] == {"configOptions": {"boolean": {}}, "notices": {}, "compaction": {}}
    with_terminal = Offers(terminal_login=True).as_json()
    assert (with_terminal["auth"], with_terminal["_meta"]) == ({"terminal": True}, {"terminal-auth": True})
