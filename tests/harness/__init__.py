"""What the scripted suites share: a RESP client, servers to start and stop, counting results."""
