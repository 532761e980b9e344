"""
A plugin of `.ci/run` (`ACP_LAUNCH_TEST_RERUN=1`): a test that failed runs once more, alone, after all the others.

What then passes is shown as `unsteady: NAME`, with the report of its failure, and does not fail the run. A second
failure does, and so do more than `MOST` failures, errors while tests are collected, and a run that was broken off.
"""

import os
import subprocess
import sys

import pytest

MOST = 20  # tests; more failures than that have another reason than a busy machine
AGAIN = ("-n", "0", "-m", "", "-p", "no:cacheprovider")
FAILED = ("failed", "error")  # as the terminal's reporter sorts them


def pytest_configure(config: pytest.Config) -> None:
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(_SecondRun(config))


class _SecondRun:
    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._failed: dict[str, None] = {}  # a set in the order of the failures
        self._unsteady: set[str] = set()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self._failed[report.nodeid] = None

    @pytest.hookimpl(trylast=True)  # when the workers have ended
    def pytest_sessionfinish(self, session: pytest.Session, exitstatus: int) -> None:
        if exitstatus != pytest.ExitCode.TESTS_FAILED or not 0 < len(self._failed) <= MOST:
            return
        self._unsteady = {name for name in self._failed if self._passes(name)}
        if self._unsteady == self._failed.keys() and not self._has_other_errors():
            session.exitstatus = pytest.ExitCode.OK

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Name them, and count them apart in the last line."""
        stats = terminalreporter.stats
        unsteady: dict[str, pytest.TestReport] = {}
        for kind in FAILED:
            reports = stats.pop(kind, [])
            unsteady |= {report.nodeid: report for report in reports if report.nodeid in self._unsteady}
            if left := [report for report in reports if report.nodeid not in self._unsteady]:
                stats[kind] = left
        if unsteady:
            stats["unsteady"] = [*unsteady.values()]
        for name in sorted(unsteady):
            terminalreporter.write_line(f"unsteady: {name}", yellow=True)

    def _passes(self, name: str) -> bool:
        command = [sys.executable, "-m", "pytest", *AGAIN, *self._inherited(), name]
        env = {key: value for key, value in os.environ.items() if key != "ACP_LAUNCH_TEST_RERUN"}
        done = subprocess.run(command, cwd=self._config.rootpath, env=env, stdin=subprocess.DEVNULL, check=False)
        return done.returncode == 0

    def _inherited(self) -> list[str]:
        return ["-c", str(self._config.inipath)] if self._config.inipath else []

    def _has_other_errors(self) -> bool:
        reporter = self._config.pluginmanager.get_plugin("terminalreporter")
        assert isinstance(reporter, pytest.TerminalReporter)
        return any(report.nodeid not in self._failed for kind in FAILED for report in reporter.stats.get(kind, []))
