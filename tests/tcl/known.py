"""The list of tests that fail, each with its reason: `UNIT | TEST | REASON`, a line each.

A reason that begins with `not run: ` says that the test is left out, since it would keep the rest
of its unit from being run: it waits for ever, or leaves its connection in a state that others fail
on. Nobody sees such a test pass, so these are tried by hand (`run.py --run-all`).
"""

from pathlib import Path

FILE = Path(__file__).resolve().parent / "known_failures.txt"
LEFT_OUT = "not run: "


def read(units):
    """Reasons by unit and test. Raises ValueError for a line that nobody could read."""
    known = {unit: {} for unit in units}
    for number, line in enumerate(FILE.read_text("utf-8").splitlines(), 1):
        if not line or line.startswith("#"):
            continue
        parts = line.split(" | ")
        if len(parts) != 3 or not parts[2].strip():
            raise ValueError(f"{FILE.name}:{number}: want UNIT | TEST | REASON, not {line!r}")
        unit, test, reason = parts
        if unit not in known:
            raise ValueError(f"{FILE.name}:{number}: no unit {unit!r} is run")
        if test in known[unit]:
            raise ValueError(f"{FILE.name}:{number}: {test!r} of {unit} is listed twice")
        known[unit][test] = reason
    return known


def left_out(reasons):
    """The tests of a unit that are not to be run."""
    return [test for test, reason in reasons.items() if reason.startswith(LEFT_OUT)]


def line(unit, test, reason):
    """One line of the list."""
    return f"{unit} | {test} | {reason}"


def judge(reasons, result):
    """What is wrong with a unit's results, beside its part of the list: (test, why)."""
    for test, why in result.failed.items():
        if test not in reasons:
            yield test, f"{why} (and known_failures.txt does not list it)"
    for test in reasons:
        if test in result.passed:
            yield test, "passes: remove its line from known_failures.txt"
        elif test not in result.failed and test not in result.skipped:
            yield test, "was not run: see what ended the unit, or remove its line"
