"""Things that are started at the beginning of a `with` block, and gone after it."""


class Started:
    """Has `start` and `clean`; what does not start in order is cleaned up at once."""

    def __enter__(self):
        try:
            return self.start()
        except BaseException:
            self.clean()
            raise

    def __exit__(self, *_):
        self.clean()
