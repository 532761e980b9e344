"""What runners are told to fetch, and which of it is one version for ever."""

import pytest

from acp_launch.registry.package import Package, read, started


@pytest.mark.parametrize(
    ("runner", "line", "told"),
    [
        ("npx", "-y @s/server@1.2.3 --port 1", ["@s/server@1.2.3"]),
        ("npx", "--yes -p a@1 --package=b@2 program arg", ["a@1", "b@2"]),
        ("npx", "-c x -- a@1 b", ["a@1"]),
        ("uvx", "server==1.0 --from-file x", ["server==1.0"]),
        ("uvx", "--python 3.13 -p 3.12 --with extra server@1.0", ["server@1.0"]),
        ("uvx", "--from pkg[x]==2.0 program", ["pkg[x]==2.0"]),
        ("node", "server.js", []),
        ("npx", "-y", []),
    ],
)
def test_a_runner_is_told_packages(runner: str, line: str, told: list[str]) -> None:
    assert [*started(runner, line.split())] == told


def test_an_exact_version_is_told_from_all_others() -> None:
    assert read("npm", "@s/a@1.0.0") == Package("npm", "@s/a", "1.0.0")
    assert str(read("pypi", "a[x]@1.0")) == "pypi:a[x]==1.0"
    assert read("npm", "a") == Package("npm", "a")
    for text in ("a@latest", "a@^1", "a@1.x || 2", "./a", "git+ssh://x", "a@npm:b@1", "-a", "", "a@"):
        assert read("npm", text) is None
    for text in ("a>=1", "a==1.*", "a @ https://x", "-a", "./a", ""):
        assert read("pypi", text) is None
