"""Ring 2. Rules about files, where the session's directories are reached through links: real ones."""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from acp_launch.descent import find_links
from acp_launch.plan.model import LaunchPlan, Origin, ProcessPlan, RulePlan
from acp_launch.profile.model import Approval, Match, Timeouts
from acp_launch.session.events import FileEvent, Refusal
from acp_launch.session.files import Files
from acp_launch.session.permission.globs import real, spellings
from acp_launch.session.permission.policy import Policy, judge, policy, remember
from acp_launch.session.permission.subject import subject


def rule(answer: Approval, **match: Any) -> RulePlan:
    globs = {key: (value,) for key, value in match.items()}
    return RulePlan(answer, Match(**globs), Origin("p.yaml", 7))


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Path]:
    """`p` is the project, and `plink` leads to it; `lib` is a further directory, and `alias` leads to it."""
    for name in ("p/secret", "p/src", "lib/secret"):
        (tmp_path / name).mkdir(parents=True)
        (tmp_path / name / "k").write_text("text")
    (tmp_path / "plink").symlink_to("p")
    (tmp_path / "alias").symlink_to("lib")
    yield tmp_path


def linked(place: Path, *rules: RulePlan, default: Approval = "ask") -> Policy:
    plan = LaunchPlan(
        profile="w",
        file=None,
        project=place / "p",
        description="",
        agent=ProcessPlan(name="agent", command=Path("/bin/true"), args=(), env={}, cwd=place / "plink"),
        timeouts=Timeouts(),
        cwd=place / "plink",
        additional_directories=(place / "alias",),
        session=None,
        permission=default,
        servers=(),
        rules=rules,
    )
    return policy(plan)


def call(path: Path | str, kind: str = "read") -> dict[str, Any]:
    return {"kind": kind, "title": "x", "locations": [{"path": str(path)}]}


def denying(place: Path) -> Policy:
    return linked(place, *(rule("deny", path=f"{place}/{name}/secret/**") for name in ("p", "lib")), default="allow")


def test_a_denied_file_is_denied_by_either_name_of_its_directory(place: Path) -> None:
    judged = {
        name: judge(denying(place), call(place / name)).answer
        for name in ("p/secret/k", "plink/secret/k", "lib/secret/k", "alias/secret/k", "plink/src/k")
    }
    assert judged == {
        "p/secret/k": "deny",
        "plink/secret/k": "deny",
        "lib/secret/k": "deny",
        "alias/secret/k": "deny",
        "plink/src/k": "allow",
    }
    assert judge(denying(place), call("secret/k")).answer == "deny", "below the session's directory"


def test_a_rule_may_speak_of_the_link_too(place: Path) -> None:
    for path in ("p/secret/k", "plink/secret/k"):
        denying = linked(place, rule("deny", path=f"{place}/*link/secret/*"), default="allow")
        assert judge(denying, call(place / path)).answer == "deny"


def test_an_allow_rule_about_the_project_holds_behind_its_link_and_not_beside_it(place: Path) -> None:
    allowing = linked(place, rule("allow", path=f"{place}/p/src/**"))
    assert judge(allowing, call(place / "plink/src/k", "edit")).answer == "allow"
    assert judge(allowing, call(place / "plink/secret/k", "edit")).answer == "ask"
    assert judge(allowing, call(place / "plinks/src/k", "edit")).answer == "ask"


def test_a_command_runs_within_the_session_by_either_name(place: Path) -> None:
    allowing = linked(place, rule("allow", command="make"))
    for cwd, answer in (("plink", "allow"), ("p/src", "allow"), ("alias", "allow"), ("lib", "allow"), ("", "ask")):
        run = {"kind": "execute", "rawInput": {"command": "make", "cwd": str(place / cwd)}}
        assert judge(allowing, run).answer == answer


def test_an_answer_that_was_kept_holds_by_either_name(place: Path) -> None:
    before = linked(place)
    asked = call(place / "plink/src/k")
    kept = remember(asked, True, subject(asked, cwd=before.cwd, links=before.links), since=0.0)
    assert kept is not None
    assert kept.paths == (str(place / "p/src/k"),)
    now = Policy("ask", remembered=(kept,), cwd=before.cwd, links=before.links)
    assert [judge(now, call(place / path)).answer for path in ("p/src/k", "plink/src/k", "plink/k")] == [
        "allow",
        "allow",
        "ask",
    ]


@pytest.mark.parametrize("spelled", ["p", "plink", "alias", "lib"])
def test_a_denied_file_is_not_served_to_a_session_behind_a_link(place: Path, spelled: str) -> None:
    asked: list[dict[str, Any]] = []
    told: list[FileEvent] = []
    rules = denying(place)

    async def allowed(call: dict[str, Any]) -> str:
        asked.append(call)
        return "" if judge(rules, call).answer == "allow" else "denied"

    files = Files((place / "plink", place / "alias"), may_write=True, allowed=allowed, tell=told.append).services()
    path = str(place / spelled / "secret" / "k")
    with pytest.raises(Refusal) as read:
        asyncio.run(files["fs/read_text_file"]({"sessionId": "s", "path": path}))  # type: ignore[arg-type]
    with pytest.raises(Refusal) as written:
        asyncio.run(
            files["fs/write_text_file"]({"sessionId": "s", "path": path, "content": "x"})  # type: ignore[arg-type]
        )
    assert (read.value.message, written.value.message) == ("denied", "denied")
    assert Path(path).read_text() == "text"
    both = ("plink", "p") if spelled in ("p", "plink") else ("alias", "lib")
    where = [{"path": str(place / name / "secret" / "k")} for name in both]
    assert [call["locations"] for call in asked] == [where, where]


def test_a_link_that_is_turned_after_the_launch_hides_no_file_from_a_rule(place: Path) -> None:
    """What is served says where it really lies."""
    rules = denying(place)
    (place / "plink").unlink()
    (place / "plink").symlink_to(".")

    async def allowed(call: dict[str, Any]) -> str:
        return "" if judge(rules, call).answer == "allow" else "denied"

    files = Files((place / "plink",), may_write=False, allowed=allowed, tell=lambda step: None).services()
    with pytest.raises(Refusal) as raised:
        asyncio.run(
            files["fs/read_text_file"](  # type: ignore[arg-type]
                {"sessionId": "s", "path": str(place / "plink/p/secret/k")}
            )
        )
    assert raised.value.message == "denied"


def test_the_longest_spelling_counts_and_only_whole_names() -> None:
    given = (("/a", "/x"), ("/a/b", "/y"))
    assert [real(path, given) for path in ("/a", "/a/c", "/a/b", "/a/b/c", "/ab", "")] == [
        "/x",
        "/x/c",
        "/y",
        "/y/c",
        "/ab",
        "",
    ]
    assert list(spellings("/y/c", given)) == ["/y/c", "/a/b/c"]
    assert list(spellings("", (("/a", "/"),))) == [""]
    assert list(spellings("/c", (("/a", "/"),))) == ["/c", "/a/c"]


def test_only_directories_that_are_links_are_noted(place: Path) -> None:
    assert find_links([str(place / "p"), str(place / "plink"), str(place / "plink")]) == (
        (str(place / "plink"), str(place / "p")),
    )
