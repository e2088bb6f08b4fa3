"""Python's websockets at the other end of a connection.

    python_peer.py client URL [CA]    talks to the echo server of the tests, then ends
    python_peer.py server             echoes; prints "listening on PORT" first, then how each connection has ended

The server does for some texts what the echo server of the tests does: `fragments`, `ping`, `close CODE REASON`.
"""

import ssl
import sys

from websockets.exceptions import ConnectionClosed
from websockets.sync.client import connect
from websockets.sync.server import serve

MEBIBYTE = 1 << 20


def client(url, ca=None):
    tls = ssl.create_default_context(cafile=ca) if ca else None
    for compression in (None, "deflate"):
        options = dict(compression=compression, ssl=tls, max_size=None, subprotocols=["v1", "v2"])
        with connect(url, **options) as socket:
            talk(socket)
            socket.close(4001, "good bye")
            print(compression, socket.subprotocol, socket.close_code, socket.close_reason)
        with connect(url, **options) as socket:
            socket.send("close 4002 enough")
            try:
                socket.recv()
            except ConnectionClosed as closed:
                print(closed.rcvd.code, closed.rcvd.reason)


def talk(socket):
    for message in ("Grüße, 漢字 😀", "", bytes(range(256)), b"", "ä" * (MEBIBYTE // 2), bytes(MEBIBYTE)):
        socket.send(message)
        assert socket.recv() == message, message[:100]
    socket.send(["in ", "three ", "fragments"])
    assert socket.recv() == "in three fragments"
    socket.send(iter([b"\x00", b"", b"\xff"]))
    assert socket.recv() == b"\x00\xff"
    socket.send("fragments")
    assert list(socket.recv_streaming()) == ["one ", "zwöi ", "三"]
    assert socket.ping(b"payload").wait(60)
    socket.send("ping")
    socket.send("behind the pong")
    assert socket.recv() == "behind the pong"


def server():
    def echo(socket):
        try:
            for message in socket:
                if message == "fragments":
                    socket.send(["one ", "zwöi ", "三"])
                elif message == "ping":
                    assert socket.ping(b"are you there").wait(60)
                    socket.send("pong")
                elif isinstance(message, str) and message.startswith("close "):
                    _, code, reason = message.split(" ", 2)
                    socket.close(int(code), reason)
                else:
                    socket.send(message)
        finally:
            print("closed", socket.close_code, socket.close_reason, flush=True)

    with serve(echo, "127.0.0.1", 0, max_size=None, subprotocols=["v2"]) as listening:
        print("listening on", listening.socket.getsockname()[1], flush=True)
        listening.serve_forever()


sys.stdout.reconfigure(encoding="utf-8")
if sys.argv[1] == "client":
    client(*sys.argv[2:])
else:
    server()
