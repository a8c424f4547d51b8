#!/usr/bin/env python3
"""The packages, made of a built binary: what is in them, and that a node runs from them.

Nothing is installed: the Debian package is unpacked into a directory. The unit is looked at by
systemd-analyze and pages of the manual by man, where these are.
"""

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path

import yaml

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path.insert(0, str(HERE.parent))

from harness.report import Report  # noqa: E402
from harness.server import CARILLON, free_ports  # noqa: E402

OUT = ROOT / "target/packages"
# By systemd-analyze: 0 is closed, 10 is open.
EXPOSURE_MAX = 2.0


def run(*words, **more):
    """The output of a program that must not fail."""
    done = subprocess.run([str(word) for word in words], capture_output=True, text=True, **more)
    assert done.returncode == 0, f"{words[0]}: {done.stdout}{done.stderr}"
    return done.stdout


def one(pattern):
    """The only file of this name."""
    found = list(OUT.glob(pattern))
    assert len(found) == 1, found
    return found[0]


def are_made():
    """Packages with checksums that are right, the same when they are made again."""
    quick = os.environ | {"PACKAGE_LEVEL": "1"}
    run(ROOT / "scripts/package.sh", CARILLON, env=quick)
    first = (OUT / "SHA256SUMS").read_text()
    assert len(first.splitlines()) == 3, first
    run("sha256sum", "--check", "SHA256SUMS", cwd=OUT)
    run(ROOT / "scripts/package.sh", CARILLON, env=quick)
    assert first == (OUT / "SHA256SUMS").read_text(), "another run gives other bytes"


def debian(place):
    """What the Debian package says of itself, and what it has."""
    run("dpkg-deb", "-x", one("*.deb"), place)
    fields = run("dpkg-deb", "-f", one("*.deb"))
    version = run(place / "usr/bin/carillon", "--version").split()[1]
    assert f"Version: {version}\n" in fields, fields
    assert "@" not in fields.replace("@localhost", ""), fields
    for each in (
        "usr/lib/systemd/system/carillon.service",
        "usr/lib/sysusers.d/carillon.conf",
        "usr/lib/tmpfiles.d/carillon.conf",
        "usr/share/man/man1/carillon.1.gz",
        "usr/share/man/man1/carillon-start.1.gz",
        "usr/share/bash-completion/completions/carillon",
        "usr/share/doc/carillon/copyright",
        "etc/carillon/carillon.toml",
    ):
        assert (place / each).stat().st_size > 0, each
    listed = run("dpkg-deb", "-c", one("*.deb"))
    assert all(" root/root " in line for line in listed.splitlines()), listed
    for script in ("postinst", "prerm", "postrm"):
        run("sh", "-n", ROOT / "deploy/debian" / script)


def manual(place):
    """Each command has a page, and man has nothing to complain of."""
    pages = place / "usr/share/man/man1"
    names = {page.name.removesuffix(".1.gz") for page in pages.iterdir()}
    commands = re.findall(r"^  ([a-z-]+)  ", run(CARILLON, "--help"), re.M)
    lacking = [each for each in commands if each != "help" and f"carillon-{each}" not in names]
    assert len(commands) > 30 and not lacking, lacking
    if not shutil.which("man"):
        print("  left out: there is no man here")
        return
    for name in ("carillon", "carillon-start", "carillon-bench-run"):
        done = subprocess.run(
            ["man", "--warnings", "-E", "UTF-8", "-l", str(pages / f"{name}.1.gz")],
            capture_output=True, text=True, check=False)
        assert done.returncode == 0 and not done.stderr, done.stderr[:300]
        assert "NAME" in done.stdout, done.stdout[:300]


def unit(place):
    """systemd finds nothing wrong with the unit, and little that it leaves open."""
    if not shutil.which("systemd-analyze"):
        print("  left out: there is no systemd-analyze here")
        return
    text = (place / "usr/lib/systemd/system/carillon.service").read_text()
    assert "/usr/bin/carillon" in text
    copy = place / "carillon.service"
    copy.write_text(text.replace("/usr/bin/carillon", str(place / "usr/bin/carillon"))
                    .replace("man:carillon(1) man:carillon-start(1)", "https://localhost"))
    said = subprocess.run(["systemd-analyze", "verify", str(copy)], capture_output=True, text=True,
                          check=False)
    ours = [line for line in said.stderr.splitlines() if "carillon" in line]
    assert not ours, ours
    said = run("systemd-analyze", "security", "--offline=yes", copy)
    exposure = float(re.search(r"exposure level for carillon.service: ([0-9.]+)", said)[1])
    print(f"  exposure of the unit: {exposure}")
    assert exposure <= EXPOSURE_MAX, said


def node(place):
    """A node runs on the packaged settings, but for ports and directory."""
    resp, http = free_ports(2)
    settings = place / "etc/carillon/carillon.toml"
    text = settings.read_text()
    for old, new in (("/var/lib/carillon", str(place / "data")), ("6379", str(resp)),
                     ("7480", str(http))):
        assert f'{old}"' in text, old
        text = text.replace(f'{old}"', f'{new}"')
    settings.write_text(text)
    program = place / "usr/bin/carillon"
    run(program, "doctor", "--config", settings, "--json")
    with subprocess.Popen([program, "start", "--config", settings], stderr=subprocess.PIPE) as child:
        try:
            deadline = time.monotonic() + 30
            while True:
                try:
                    urllib.request.urlopen(f"http://127.0.0.1:{http}/health/ready", timeout=1)
                    break
                except OSError:
                    assert child.poll() is None and time.monotonic() < deadline, child.stderr.read()
                    time.sleep(0.1)
            run(program, "put", "--http", f"127.0.0.1:{http}", "bell", "7")
            said = run(program, "get", "--http", f"127.0.0.1:{http}", "bell")
            assert said.strip() == "7", said
        finally:
            child.terminate()
            child.wait(30)
    assert child.returncode == 0, child.returncode


def tarball():
    """One directory, with all that another Linux needs."""
    listed = run("tar", "-tzf", one("*.tar.gz")).splitlines()
    top = {line.split("/")[0] for line in listed}
    assert len(top) == 1, top
    (name,) = top
    for each in ("carillon", "LICENSE", "man1/carillon.1.gz", "deploy/systemd/carillon.service",
                 "completions/carillon.bash"):
        assert f"{name}/{each}" in listed, each


def bill_of_materials():
    """All crates, with licences and checksums; none that only tests use."""
    bill = json.loads(one("*.cdx.json").read_text())
    found = {each["name"]: each for each in bill["components"]}
    assert bill["bomFormat"] == "CycloneDX" and len(found) > 100, len(found)
    assert {"tokio", "rustls", "clap"} <= set(found), sorted(found)
    assert all(each.get("licenses") and each.get("hashes") for each in found.values())
    assert "proptest" not in found and "loom" not in found


def watched():
    """Rules and dashboard name metrics that nodes tell, and pages that there are."""
    rules = (ROOT / "deploy/prometheus/carillon.rules.yml").read_text()
    board = (ROOT / "deploy/grafana/carillon.json").read_text()
    told = "\n".join(path.read_text() for path in ROOT.glob("crates/*/src/**/*.rs"))
    for name in sorted(set(re.findall(r"carillon_[a-z_]+", rules + board))):
        name = name.removesuffix("_bucket")
        assert f'"{name}"' in told or name.startswith("carillon_peer_"), f"no node tells {name}"
    alerts = [rule for group in yaml.safe_load(rules)["groups"] for rule in group["rules"]]
    assert len({rule["alert"] for rule in alerts}) == len(alerts) >= 10
    for rule in alerts:
        assert {"expr", "labels", "annotations"} <= set(rule), rule
        page, _, part = rule["annotations"]["action"].partition("#")
        if page.startswith("docs/"):
            heads = re.findall(r"^#+ (.*)", (ROOT / page).read_text(), re.M)
            anchors = {re.sub(r"[^a-z0-9 -]", "", head.lower()).replace(" ", "-") for head in heads}
            assert not part or part in anchors, rule
    places = [panel["gridPos"] for panel in json.loads(board)["panels"]]
    cells = [(x, y) for at in places for x in range(at["x"], at["x"] + at["w"])
             for y in range(at["y"], at["y"] + at["h"])]
    assert len(cells) == len(set(cells)) and max(x for x, _ in cells) < 24, "panels overlap"


def main():
    """All of it."""
    report = Report("packages")
    report.run("they are made", are_made)
    with tempfile.TemporaryDirectory() as directory:
        place = Path(directory)
        report.run("Debian", debian, place)
        report.run("manual", manual, place)
        report.run("unit", unit, place)
        report.run("a node", node, place)
    report.run("tarball", tarball)
    report.run("what is compiled in", bill_of_materials)
    report.run("rules and dashboard", watched)
    report.finish()


if __name__ == "__main__":
    main()
