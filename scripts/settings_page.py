#!/usr/bin/env python3
"""Writes docs/settings.md from what `carillon start --help` says about each setting.

    settings_page.py            writes the page
    settings_page.py --check    fails if the page is not what it would write

The program's help comes from the table of settings (crates/server/src/config/settings.rs), so the
page cannot differ from the code. Which group a setting belongs to stands below: a setting without a
group, or a group with an unknown setting, is an error. The binary is the one that `TEST_CARILLON`
names, by default target/release/carillon.
"""

import os
import re
import subprocess
import sys
import textwrap
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs/settings.md"
BINARY = os.environ.get("TEST_CARILLON", str(ROOT / "target/release/carillon"))
WIDTH = 118

HEAD = """\
# Settings

```sh
carillon start --memory-max 2GiB             # a flag
CARILLON_MEMORY_MAX=2GiB carillon start      # an environment variable
carillon start --config /etc/carillon.toml   # a file with the line: memory_max = "2GiB"
```

A node reads its settings once, when it starts. Flags win over the environment, the environment over the file, the file
over the defaults. Of a flag that is given twice, the last one counts. `CARILLON_CONFIG` names a file if `--config` does
not.

A node does not start with a name that is no setting (the error suggests the nearest one), with a value outside its
bounds, or with settings that contradict each other:

- a listener beyond loopback that is not [encrypted and closed](password.md#beyond-loopback), without `insecure`;
- two listeners at one address, or one for TLS without `tls_cert_file` and `tls_key_file`;
- some of `peer_tls_cert_file`, `peer_tls_key_file` and `peer_tls_ca_file` without the others;
- `password_file` with `nbd`, unless clients of volumes show certificates;
- `peer` without `peer_secret_file` or certificates, or at 0.0.0.0 without `advertise`;
- `join`, or `replicas` above 1, without `peer`;
- `resp_advertise_port` without `resp`, or `resp_replica_advertise_port` without `resp_replica`;
- `resp_replica` without `resp`, or in another `resp_mode` than `cluster`;
- `input_bytes_max` or `output_bytes_max` below `key_bytes_max` + `value_bytes_max` + 16 KiB.

Settings whose names end in `_ms` take milliseconds, or a time with its unit: `250ms`, `10s`, `5m`, `1h`, `7d`.

To find a setting by what you want to do, see [settings by task](operations.md#settings-by-task). What happens when a
limit is reached: [limits.md](limits.md). This page is generated: `make settings` writes it, and `make test` compares it
with the program.
"""

GROUPS = {
    "Identity and data": ["dir", "name", "domain"],
    "Listeners": [
        "resp", "resp_mode", "resp_advertise_port", "resp_replica", "resp_replica_advertise_port", "native", "nbd",
        "native_error_reason", "http", "insecure",
    ],
    "TLS and the password": [
        "password_file", "resp_tls", "native_tls", "http_tls", "nbd_tls", "tls_cert_file", "tls_key_file",
        "tls_client_ca_file", "tls_client_crl_file", "peer_tls_cert_file", "peer_tls_key_file", "peer_tls_ca_file",
        "peer_tls_crl_file", "peer_tls_name",
    ],
    "Cluster": [
        "peer", "join", "advertise", "peer_secret_file", "clock_offset_max_ms", "consistency_check_interval_ms",
        "cluster_version_max", "auto_upgrade", "auto_upgrade_after_ms",
    ],
    "New keyspaces": ["replicas", "durability", "retention_ms"],
    "Placement and shards": [
        "placement", "balance", "dead_after_ms", "snapshot_rate", "split_bytes", "split_keys",
        "split_rate", "merge_bytes",
    ],
    "Lookups": ["lookup", "resp_lookup", "http_lookup"],
    "Memory, requests and connections": [
        "memory_max", "snapshot_bytes_max", "key_bytes_max", "value_bytes_max", "connections_max",
        "http_connections_max", "input_bytes_max", "output_bytes_max", "output_bytes_total_max",
        "pubsub_output_bytes_max", "tracking_keys_max",
        "idle_timeout_ms", "request_timeout_ms", "shutdown_timeout_ms",
    ],
    "Scripts": [
        "script_time_ms", "script_instructions", "script_memory_bytes", "script_threads",
        "script_cache_bytes",
    ],
    "Disk": ["segment_bytes", "checkpoint_log_bytes", "interval_ms", "record", "record_bytes_max"],
    "Threads and logging": ["threads", "log_level", "log_format"],
}


def settings():
    """What the help says: name → (meaning, default, what it takes)."""
    shown = subprocess.run(
        [BINARY, "start", "--help"], capture_output=True, text=True, check=True,
        # Else the help is as wide as the terminal.
        env={**os.environ, "COLUMNS": "100"},
    ).stdout
    options = shown.partition("\nOptions:\n")[2].partition("\nEvery setting is")[0]
    found = {}
    for block in re.split(r"\n\n(?=\s+(?:-h, )?--)", options.strip("\n")):
        flag = re.match(r"\s+--([a-z-]+)", block)
        text = " ".join(block.split("\n", 1)[1].split()) if "\n" in block else ""
        says = re.fullmatch(r"(.*?)(?: \[default: (.*?)\])? Takes (.*?)\. Environment: \w+", text)
        if flag and says:
            found[flag[1].replace("-", "_")] = says.groups()
    return found


def entry(name, meaning, default, takes):
    default = f"Default: `{default}`." if default else "No default."
    lines = [f"### `{name}`", ""]
    lines += textwrap.wrap(meaning, WIDTH, break_on_hyphens=False) + [""]
    lines += textwrap.wrap(f"{default} Takes {takes}.", WIDTH, break_on_hyphens=False)
    return "\n".join(lines) + "\n"


def page():
    found = settings()
    grouped = [name for names in GROUPS.values() for name in names]
    wrong = set(grouped) ^ set(found)
    if wrong or len(grouped) != len(set(grouped)):
        sys.exit(f"each setting needs one group in scripts/settings_page.py: {sorted(wrong)}")
    parts = [HEAD]
    for title, names in GROUPS.items():
        parts += [f"## {title}\n", *(entry(name, *found[name]) for name in names)]
    return "\n".join(parts)


def main():
    if sys.argv[1:] == ["--check"]:
        same = PAGE.read_text() == page()
        if not same:
            print("docs/settings.md is not what the program says: run `make settings`")
        print(f"settings: {int(same)} passed, {int(not same)} failed")
        return not same
    PAGE.write_text(page())
    return False


if __name__ == "__main__":
    sys.exit(main())
