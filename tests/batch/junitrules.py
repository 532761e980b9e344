"""The rules of Jenkins' schema for JUnit reports (version 10 of its xunit plugin), as far as one can break them."""

import re
from collections.abc import Iterator
from xml.etree.ElementTree import Element

TIME = re.compile(r"(([0-9]{0,3},)*[0-9]{3}|[0-9]{0,3})*(\.[0-9]*)?")
RERUN = {"rerunFailure", "rerunError", "flakyFailure", "flakyError"}
# Children, attributes that are required, and other attributes.
RULES: dict[str, tuple[set[str], set[str], set[str]]] = {
    "testsuites": ({"testsuite"}, set(), {"name", "time", "tests", "failures", "errors"}),
    "testsuite": (
        {"testsuite", "properties", "testcase", "system-out", "system-err"},
        {"name", "tests", "failures", "errors"},
        {"group", "time", "skipped", "timestamp", "hostname", "id", "package", "file", "log", "url"},
    ),
    "properties": ({"property"}, set(), set()),
    "property": (set(), {"name", "value"}, set()),
    "testcase": (
        {"skipped", "error", "failure", "system-out", "system-err"} | RERUN,
        {"name"},
        {"time", "classname", "group"},
    ),
    **dict.fromkeys(("failure", "error", "skipped"), (set(), set(), {"type", "message"})),
    **dict.fromkeys(RERUN, ({"stackTrace", "system-out", "system-err"}, {"type"}, {"message"})),
    **dict.fromkeys(("system-out", "system-err", "stackTrace"), (set(), set(), set())),
}


def find_faults(element: Element) -> Iterator[str]:
    """Yield what is wrong with an element and all below it."""
    if element.tag not in RULES:
        yield f"{element.tag} is unknown"
        return
    children, required, others = RULES[element.tag]
    if missing := required - set(element.attrib):
        yield f"{element.tag} lacks {missing}"
    if unknown := set(element.attrib) - required - others:
        yield f"{element.tag} has {unknown}"
    if element.tag.startswith("testsuite") and not TIME.fullmatch(element.get("time", "")):
        yield f"{element.tag} takes {element.get('time')}"
    for child in element:
        if child.tag not in children:
            yield f"{child.tag} is in {element.tag}"
        yield from find_faults(child)
