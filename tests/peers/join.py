"""Joins with botmine, one VERSION after the other (1.20.1 to 26.1), as far as its login and configuration go.

    python join.py ADDRESS:PORT VERSION...

Unlike minecraft-protocol, botmine says that it has the registries the server offers. The handshake names the
address. Prints one line of JSON for each version: joined or error.
"""

import json
import sys

import botmine

host, port = sys.argv[1].rsplit(":", 1)

for version in sys.argv[2:]:
    try:
        bot = botmine.Bot(host, int(port), nickname="Bot" + version.replace(".", "_"), version=version)
        result = {"event": "joined", "version": version, "connected": bot.connected}
        bot.leave()
    except botmine.BotError as error:
        result = {"event": "error", "version": version, "error": repr(error)}
    print(json.dumps(result), flush=True)
