"""Flask-Limiter: one Flask application for each node, each called by two threads."""

import logging
import time

import redis
from flask import Flask, request
from flask_limiter import Limiter
from shared import (MODE, NODES, TIMEOUT_SECONDS, Admitted, check, finish, loading, options,
                    parallel, passing)

LIMIT = 20
THREADS = 6


def application(number):
    """An application that admits so many requests a minute for each caller."""
    app = Flask(f"app{number}")
    app.logger.setLevel(logging.CRITICAL)
    logging.getLogger("flask-limiter").setLevel(logging.CRITICAL)
    host, port = NODES[number % len(NODES)]
    uri, how = f"redis://{host}:{port}", options()
    if MODE == "cluster":
        uri = "redis+cluster://" + ",".join(f"{host}:{port}" for host, port in NODES)
        how = {"socket_timeout": TIMEOUT_SECONDS}
    limiter = Limiter(lambda: request.headers["caller"], app=app, storage_uri=uri,
                      storage_options=how)

    @app.get("/")
    @limiter.limit(f"{LIMIT} per minute")
    def served():
        return "served"

    @app.errorhandler(redis.RedisError)
    def broken(error):
        return (repr(error), 503 if passing(error) else 500)

    return app


def main():
    """Each round is a caller of its own."""
    apps = [application(number) for number in range(len(NODES))]
    count = Admitted(LIMIT)

    def call(browser, name):
        reply = browser.get("/", headers={"caller": name})
        if reply.status_code == 503:
            raise redis.ConnectionError(reply.text)
        assert reply.status_code in (200, 429), f"{reply.status_code} {reply.text}"
        return reply.status_code == 200

    def work(number):
        browser = apps[number % len(apps)].test_client()
        while time.monotonic() < end:
            name = count.name()
            count.hit(name, lambda: call(browser, name))

    end = loading()
    check("Flask-Limiter: load over a kill -9", parallel, work, THREADS)
    check("Flask-Limiter: never above the limit", count.judge)


main()
finish()
