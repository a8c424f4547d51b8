"""redis_exporter: Prometheus's view of a Redis server, on a node."""

import subprocess
import time
import urllib.request
from pathlib import Path

from harness.server import free_ports

PROGRAM = Path(__file__).resolve().parents[2] / "target/clients/redis_exporter"
# What dashboards of Redis are made of.
WANTED = (
    "redis_up", "redis_uptime_in_seconds", "redis_connected_clients", "redis_memory_used_bytes",
    "redis_memory_max_bytes", "redis_commands_processed_total", "redis_net_input_bytes_total",
    "redis_net_output_bytes_total", "redis_keyspace_hits_total", "redis_keyspace_misses_total",
    "redis_expired_keys_total", "redis_evicted_keys_total", "redis_db_keys", "redis_db_keys_expiring",
    "redis_commands_total", "redis_commands_duration_seconds_total", "redis_slowlog_length",
    "redis_cpu_sys_seconds_total", "redis_instance_info", "redis_rejected_connections_total",
)


def scrapes(server):
    """All that it wants is there, and no command of it fails."""
    if not PROGRAM.exists():
        print("  left out: redis_exporter could not be built here")
        return
    link = server.connect()
    for command in (("SET", "scraped", "1"), ("GET", "scraped"), ("SETEX", "ends", "100", "1")):
        link.call(*command)
    link.close()
    (port,) = free_ports(1)
    words = [PROGRAM, "-redis.addr", f"redis://{server.host}:{server.resp}",
             "-web.listen-address", f"127.0.0.1:{port}"]
    with subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
                          text=True) as exporter:
        try:
            text = scraped(f"http://127.0.0.1:{port}/metrics")
        finally:
            exporter.terminate()
        said = exporter.communicate()[1]
    assert "\nredis_up 1\n" in text, text[-500:]
    assert "\nredis_exporter_last_scrape_error{err=\"\"} 0\n" in text, text[-500:]
    lacking = [name for name in WANTED if f"\n{name}{{" not in text and f"\n{name} " not in text]
    assert not lacking, lacking
    assert 'redis_db_keys{db="db0"} ' in text and 'redis_commands_total{cmd="setex"} ' in text
    wrong = [line for line in said.splitlines() if "level=err" in line.lower()]
    assert not wrong, wrong


def scraped(url):
    """Its second answer: the first one has counted nothing of itself."""
    deadline = time.monotonic() + 20
    while True:
        try:
            urllib.request.urlopen(url, timeout=10).read()
            with urllib.request.urlopen(url, timeout=10) as answer:
                return answer.read().decode()
        except OSError:
            assert time.monotonic() < deadline, "redis_exporter does not serve"
            time.sleep(0.1)
