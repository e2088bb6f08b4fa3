"""A client that speaks through Python's websockets.

    python_client.py URL FILTER

Standard input: `publish TOPIC TEXT`, `leave`, `return` (resumes behind the last position), `end`.
Standard output: `subscribed gap=…`, `message TEXT`, `published`, `left`, `lost` where the gateway has gone.
"""

import json
import sys
import threading
from contextlib import ExitStack

from websockets.exceptions import ConnectionClosed
from websockets.sync.client import connect


class Client:
    def __init__(self, url, topic):
        self.url = url
        self.topic = topic
        self.position = None
        self.is_leaving = False

    def enter(self):
        self.is_leaving = False
        self.opened = ExitStack()
        self.socket = self.opened.enter_context(connect(self.url, proxy=None))
        subscribe = {"topic": self.topic}
        if self.position:
            subscribe["since"] = self.position
        self.socket.send(json.dumps({"id": 1, "subscribe": subscribe}))
        answer = json.loads(self.socket.recv())["ok"]
        if not answer["recovered"]:
            self.position = answer["position"]
        tell(f"subscribed gap={str(answer['gap']).lower()}")
        self.reader = threading.Thread(target=self.read, daemon=True)
        self.reader.start()

    def read(self):
        try:
            for text in self.socket:
                message = json.loads(text)
                if message.get("push") == "message":
                    self.position = message["position"]
                    tell(f"message {message.get('text')}")
                elif "error" in message:
                    tell(f"error {message['error']['name']}")
                elif message.get("id") == 2:
                    tell("published")
        except ConnectionClosed:
            pass
        if not self.is_leaving:
            tell("lost")

    def publish(self, topic, text):
        self.socket.send(json.dumps({"id": 2, "publish": {"topic": topic, "text": text}}))

    def leave(self):
        self.is_leaving = True
        self.opened.close()
        self.reader.join()
        tell("left")


def tell(line):
    print(line, flush=True)


client = Client(*sys.argv[1:])
client.enter()
for line in sys.stdin:
    command, _, rest = line.rstrip("\n").partition(" ")
    if command == "publish":
        client.publish(*rest.split(" ", 1))
    elif command == "leave":
        client.leave()
    elif command == "return":
        client.enter()
client.is_leaving = True
client.opened.close()
