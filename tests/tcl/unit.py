"""Runs one unit of the Tcl suites, and reads what its harness prints."""

import os
import re
import signal
import subprocess

# A test that takes longer without a word waits for ever.
SILENT_SECONDS_MAX = 60
UNIT_SECONDS_MAX = 600
# What one node alone cannot be asked, or what Redis alone has: DEBUG, replicas, files of its own.
TAGS = "-needs:debug -needs:repl -needs:save"
COLOUR = re.compile("\x1b\\[[0-9;]*m")
STATUS = re.compile(r"^\[(ok|err|skip|exception|TIMEOUT)\]: (.*)$")
TOOK = re.compile(r" \(\d+ ms\)$")
PLACE = re.compile(r" in tests/unit/\S+\.tcl$")
WAITS = re.compile(r"^sock\w+ => \(IN PROGRESS\) (.*)$")
# Names of what is no test.
OUTSIDE, ENDED = "(outside of tests)", "(the unit ends early)"
WHY_CHARACTERS_MAX = 300


class Result:
    """Names of a unit's tests: those that passed, those left out, and why the others failed.

    Tests may share a name: it passes if all of them do.
    """

    def __init__(self):
        self.passed, self.skipped, self.failed = set(), set(), {}

    def fail(self, name, why):
        """A test failed, or what ended the unit."""
        self.passed.discard(name)
        self.failed.setdefault(name, why)


def run_unit(redis, unit, server, left_out, log):
    """Runs a unit against a server, and writes what it printed to a file."""
    words = ["tclsh", "tests/test_helper.tcl", "--host", server.host, "--port", str(server.resp)]
    words += ["--single", unit, "--durable", "--tags", TAGS]
    # The other programs that run beside it would fail its checks of delays.
    words += ["--no-latency", "--timeout", str(SILENT_SECONDS_MAX)]
    words += [word for test in left_out for word in ("--skiptest", test)]
    with open(log, "wb") as output:
        process = subprocess.Popen(
            words, cwd=redis, stdin=subprocess.DEVNULL, stdout=output, stderr=output,
            # Its harness starts processes: they end together.
            start_new_session=True,
        )
        try:
            process.wait(UNIT_SECONDS_MAX)
        except subprocess.TimeoutExpired:
            output.write(b"\n[exception]: took longer than %d s\n" % UNIT_SECONDS_MAX)
        finally:
            end_group(process)
    return read(log.read_text("utf-8", "replace"))


def end_group(process):
    """Ends the harness with all that it started."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
    process.wait()


def read(text):
    """The results in what the harness printed."""
    result = Result()
    lines = COLOUR.sub("", text).splitlines()
    for at, line in enumerate(lines):
        match, waits = STATUS.match(line), WAITS.match(line)
        if waits:
            result.fail(waits[1], f"waits longer than {SILENT_SECONDS_MAX} s")
        if not match:
            continue
        status, rest = match.groups()
        if status == "ok" and TOOK.sub("", rest) not in result.failed:
            result.passed.add(TOOK.sub("", rest))
        elif status == "skip":
            result.skipped.add(rest)
        elif status == "err" and PLACE.search(rest):
            result.fail(PLACE.sub("", rest), why(lines[at + 1 : at + 3]))
        elif status == "err":
            result.fail(OUTSIDE, why([rest, *lines[at + 1 : at + 2]]))
        elif status in ("exception", "TIMEOUT"):
            result.fail(ENDED, why([rest]))
    if "The End" not in text:
        result.fail(ENDED, "the harness stopped without its last line")
    return result


def why(lines):
    """A failure in one line. The harness cuts ten characters off an error, and then repeats it."""
    first, *others = lines or [""]
    repeated = others and first and others[0].endswith(first)
    said = others[0] if repeated else first
    return re.sub(r" \(context: .*", "", said)[:WHY_CHARACTERS_MAX]
