"""Fetches the source of redis 7.0.15 from Debian, whose signatures apt checks."""

import shutil
import subprocess
from pathlib import Path

# The Debian release whose redis the suites are compared with; known_failures.txt is for it.
RELEASE, VERSION = "bookworm", "7.0.15"
KEYRING = Path("/usr/share/keyrings/debian-archive-keyring.gpg")
MIRRORS = [
    f"http://deb.debian.org/debian {RELEASE}",
    f"http://deb.debian.org/debian-security {RELEASE}-security",
]
APT_SECONDS_MAX = 180
AFTER_FAILURE = Path(__file__).resolve().parent / "after_failure.tcl"
APPENDED = "\n# Appended by Carillon's tests/tcl:\n"


class Unreachable(Exception):
    """Why the source cannot be had."""


def fetch(directory):
    """The unpacked source, below `directory`; fetched unless it is there."""
    redis = directory / f"redis-{VERSION}"
    if not redis.is_dir():
        for program in ("tclsh", "apt-get", "dpkg-source"):
            if not shutil.which(program):
                raise Unreachable(f"{program} is not installed (scripts/setup.sh soak installs it)")
        if not KEYRING.exists():
            raise Unreachable(f"{KEYRING} is missing: this machine has no keys of Debian")
        # A run that is cut off leaves no half of a source.
        unpacked = unpack(directory / "apt") / redis.name
        if not unpacked.is_dir():
            raise Unreachable(f"Debian's {RELEASE} has no redis {VERSION} any more")
        unpacked.rename(redis)
        shutil.rmtree(directory / "apt")
    elif not shutil.which("tclsh"):
        raise Unreachable("tclsh is not installed (scripts/setup.sh soak installs it)")
    amend(redis / "tests/support/test.tcl")
    return redis


def amend(harness):
    """Appends after_failure.tcl to the harness, in place of what an earlier run appended."""
    original = harness.read_text().split(APPENDED)[0]
    harness.write_text(original + APPENDED + AFTER_FAILURE.read_text())


def unpack(work):
    """Runs apt with a list of sources, state and cache of its own."""
    shutil.rmtree(work, ignore_errors=True)
    for each in ("lists/partial", "cache/archives/partial"):
        (work / each).mkdir(parents=True)
    sources = work / "sources.list"
    lines = [f"deb-src [signed-by={KEYRING}] {mirror} main\n" for mirror in MIRRORS]
    sources.write_text("".join(lines))
    settings = {
        "Dir::Etc::SourceList": sources, "Dir::Etc::SourceParts": "/dev/null",
        "Dir::State::Lists": work / "lists", "Dir::Cache": work / "cache",
        "APT::Sandbox::User": "", "APT::Update::Error-Mode": "any",
    }
    options = [word for name, value in settings.items() for word in ("-o", f"{name}={value}")]
    apt(work, options, "update")
    apt(work, options, "source", "redis")
    return work


def apt(work, options, *words):
    """One command of apt; raises Unreachable with its last words."""
    try:
        subprocess.run(
            ["apt-get", "-qq", *options, *words], cwd=work, check=True, timeout=APT_SECONDS_MAX, text=True,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )
    except subprocess.CalledProcessError as error:
        last = (error.stdout.strip().splitlines() or ["no output"])[-1]
        raise Unreachable(f"apt-get {words[0]} failed: {last}") from error
    except subprocess.TimeoutExpired as error:
        raise Unreachable(f"apt-get {words[0]} did not end in {APT_SECONDS_MAX} s") from error
