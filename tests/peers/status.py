"""Asks one server for its status with every pinger of mcstatus and minestat.

    python status.py NAME:PORT

NAME is what mcstatus puts into the handshake: here every name is this machine. Prints one line of JSON for
each pinger: { pinger, ok, answer } or { pinger, ok: false, error }.
"""

import json
import socket
import sys

from mcstatus import JavaServer, LegacyServer
from minestat import ConnStatus, MineStat, SlpProtocols

host, port = sys.argv[1].rsplit(":", 1)
port = int(port)
resolve = socket.getaddrinfo
socket.getaddrinfo = lambda name, *rest, **options: resolve("127.0.0.1", *rest, **options)


def mcstatus_legacy():
    status = LegacyServer(host, port, timeout=10).status(tries=1)
    return {"motd": status.motd.to_plain(), "protocol": status.version.protocol}


def minestat(protocol):
    """minestat tells its failures in a field, and puts the address into the handshake."""
    answer = MineStat("127.0.0.1", port, timeout=10, query_protocol=protocol, resolve_srv=False)
    if answer.connection_status is not ConnStatus.SUCCESS:
        raise ConnectionError(answer.connection_status.name)
    return {"motd": answer.stripped_motd, "version": answer.version, "protocol": answer.slp_protocol.name}


PINGERS = {
    "mcstatus status": lambda: JavaServer(host, port, timeout=10).status(tries=1).raw,
    # A ping with no status request before it: only the milliseconds come back.
    "mcstatus ping": lambda: JavaServer(host, port, timeout=10).ping(tries=1),
    "mcstatus legacy": mcstatus_legacy,
    "minestat json": lambda: minestat(SlpProtocols.JSON),
    "minestat extended legacy": lambda: minestat(SlpProtocols.EXTENDED_LEGACY),
    "minestat legacy": lambda: minestat(SlpProtocols.LEGACY),
    "minestat beta": lambda: minestat(SlpProtocols.BETA),
}

for pinger, ping in PINGERS.items():
    try:
        result = {"pinger": pinger, "ok": True, "answer": ping()}
    except Exception as error:
        result = {"pinger": pinger, "ok": False, "error": repr(error)}
    print(json.dumps(result), flush=True)
