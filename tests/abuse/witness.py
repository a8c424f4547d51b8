"""The well-behaved client that must not notice what others do."""

import threading
import time

from harness import resp

# Two cores also run the abuser: long for a request, short for a server that hangs.
WAIT_SECONDS_MAX = 3.0


class Witness:
    """Writes and reads its own key in a thread, and keeps the longest wait and the first error."""

    def __init__(self, server):
        self.server = server
        self.stop = threading.Event()
        self.error = None
        self.longest = 0.0
        self.count = 0
        self.thread = threading.Thread(target=self.work, daemon=True)

    def connect(self):
        """To a keyspace of its own: the abuser may drop others."""
        connection = self.server.connect(timeout_s=30)
        assert connection.call("SELECT", "9") == b"OK"
        return connection

    def work(self):
        """SET, GET, and now and then a new connection."""
        try:
            connection = self.connect()
            while not self.stop.is_set():
                began = time.monotonic()
                value = b"%d" % self.count
                assert connection.call("SET", "witness", value) == b"OK"
                assert connection.call("GET", "witness") == value
                self.count += 1
                if self.count % 50 == 0:
                    connection.close()
                    connection = self.connect()
                self.longest = max(self.longest, time.monotonic() - began)
                time.sleep(0.002)
            connection.close()
        except (OSError, AssertionError, resp.Closed, resp.ReplyError) as error:
            self.error = f"{type(error).__name__}: {error}"

    def judge(self):
        """Fails if the witness was disturbed."""
        assert self.error is None, f"the well-behaved client met {self.error}"
        assert self.count > 0, "the well-behaved client was not served at all"
        assert self.longest < WAIT_SECONDS_MAX, f"it waited {self.longest:.1f} s"

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.stop.set()
        self.thread.join(40)
