#!/usr/bin/env python3
"""Prints what is compiled into carillon, as CycloneDX 1.5: name, version, licence and checksum of each
crate that `carillon` depends on, builds included, tests not.

  sbom.py VERSION
"""

import json
import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PROGRAM = "carillon"


def reached(metadata):
    """Ids of all packages that the program needs, itself included."""
    nodes = {node["id"]: node for node in metadata["resolve"]["nodes"]}
    first = next(each["id"] for each in metadata["packages"] if each["name"] == PROGRAM)
    found, todo = {first}, [first]
    while todo:
        for each in nodes[todo.pop()]["deps"]:
            is_used = any(kind["kind"] != "dev" for kind in each["dep_kinds"])
            if is_used and each["pkg"] not in found:
                found.add(each["pkg"])
                todo.append(each["pkg"])
    return found


def checksums():
    """Of crates from a registry, by name and version."""
    lock = tomllib.loads((ROOT / "Cargo.lock").read_text())
    return {(each["name"], each["version"]): each.get("checksum") for each in lock["package"]}


def component(package, checksum):
    """One crate."""
    name, version = package["name"], package["version"]
    shown = {
        "type": "library",
        "name": name,
        "version": version,
        "purl": f"pkg:cargo/{name}@{version}",
        "bom-ref": f"{name}@{version}",
    }
    if package["license"]:
        shown["licenses"] = [{"expression": package["license"].replace("/", " OR ")}]
    if checksum:
        shown["hashes"] = [{"alg": "SHA-256", "content": checksum}]
    return shown


def main():
    """Prints the document."""
    command = ["cargo", "metadata", "--locked", "--format-version", "1",
               "--filter-platform", "x86_64-unknown-linux-gnu"]
    metadata = json.loads(subprocess.run(command, cwd=ROOT, check=True, capture_output=True).stdout)
    used, sums = reached(metadata), checksums()
    packages = [each for each in metadata["packages"] if each["id"] in used and each["source"]]
    packages.sort(key=lambda each: (each["name"], each["version"]))
    document = {
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": {"component": {"type": "application", "name": PROGRAM, "version": sys.argv[1]}},
        "components": [
            component(each, sums.get((each["name"], each["version"]))) for each in packages
        ],
    }
    json.dump(document, sys.stdout, indent=1)
    print()


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    main()
