"""Uses tokens over WebSocket, through Python's websockets.

    use_tokens.py URL

Reads an object of tokens by name; prints an object of results by name: what came of the commands, or the code of the Close where
the token was in the address, and the name of the error where it came by the command `connect`.
"""

import json
import sys
from urllib.parse import quote

from websockets.exceptions import ConnectionClosed
from websockets.sync.client import connect

COMMANDS = {
    "subscribe": {"subscribe": {"topic": "news.*"}},
    "subscribe elsewhere": {"subscribe": {"topic": "chat.*"}},
    "subscribe to all": {"subscribe": {"topic": ">"}},
    "publish": {"publish": {"topic": "news.de", "data": 1}},
    "publish elsewhere": {"publish": {"topic": "news.at", "data": 1}},
    "read elsewhere": {"history": {"topic": "chat.lobby"}},
    "look elsewhere": {"presence": {"topic": "chat.lobby"}},
}


def use(address, connects_with):
    try:
        with connect(address, proxy=None) as socket:
            if connects_with is not None:
                socket.send(json.dumps({"id": 0, "connect": {"token": connects_with}}))
                answer = json.loads(socket.recv())
                if "error" in answer:
                    # The client may try another token, and nothing else.
                    socket.send(json.dumps({"id": 1, **COMMANDS["subscribe"]}))
                    assert json.loads(socket.recv())["error"]["name"] == "token_required"
                    return answer["error"]["name"]
            results = {}
            for name, command in COMMANDS.items():
                socket.send(json.dumps({"id": 1, **command}))
                answer = json.loads(socket.recv())
                while answer.get("id") != 1:
                    answer = json.loads(socket.recv())
                results[name] = answer["error"]["name"] if "error" in answer else "ok"
            return results
    except ConnectionClosed as closed:
        return closed.rcvd.code if closed.rcvd else "lost"


url = sys.argv[1]
results = {}
for name, token in json.load(sys.stdin).items():
    by_address = use(f"{url}?token={quote(token)}", None)
    by_command = use(url, token)
    results[name] = [by_address, by_command]
json.dump(results, sys.stdout)
