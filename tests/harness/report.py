"""Counting checks: each prints one line when it fails, one summary line at the end.

The summary reads `NAME: N passed, N failed`; scripts/test.sh adds them up.
"""

import sys
import time
import traceback


class Report:
    """Passed and failed checks of one suite."""

    def __init__(self, suite, quiet=False):
        self.suite = suite
        self.quiet = quiet
        self.passed = 0
        self.failed = 0

    def ok(self, name, seconds=None):
        """A check held."""
        self.passed += 1
        if not self.quiet:
            took = f" ({seconds:.1f} s)" if seconds is not None else ""
            print(f"  ok   {self.suite} {name}{took}", flush=True)

    def fail(self, name, why):
        """A check did not hold."""
        self.failed += 1
        if not self.quiet:
            print(f"  FAIL {self.suite} {name}: {why}", flush=True)

    def run(self, name, check, *args):
        """Runs a check that raises when it does not hold."""
        began = time.monotonic()
        try:
            check(*args)
        except Exception as error:  # pylint: disable=broad-except
            where = traceback.extract_tb(error.__traceback__)[-1]
            self.fail(name, f"{type(error).__name__}: {error} ({where.name}:{where.lineno})")
            return False
        self.ok(name, time.monotonic() - began)
        return True

    def finish(self):
        """Prints the summary and ends the process: 0 if nothing failed and something ran."""
        print(f"{self.suite}: {self.passed} passed, {self.failed} failed", flush=True)
        sys.exit(0 if self.failed == 0 and self.passed > 0 else 1)
