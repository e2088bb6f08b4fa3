// Node's ws at the other end of a connection.
//
//     node_peer.js client URL [CA]    talks to the echo server of the tests, then ends
//     node_peer.js server             echoes; prints "listening on PORT" first, then how each connection has ended
//
// The server does for some texts what the echo server of the tests does: `fragments`, `ping`, `close CODE REASON`.

const assert = require("node:assert");
const fs = require("node:fs");
const { once } = require("node:events");
const WebSocket = require("ws");
const { connect, talk } = require("./talk.js");

async function client(url, ca) {
  const tls = ca ? { ca: fs.readFileSync(ca) } : {};
  for (const perMessageDeflate of [false, true]) {
    const open = () => connect((protocols) => new WebSocket(url, protocols, { perMessageDeflate, ...tls }));
    const peer = await open();
    await talk(peer);
    const { socket } = peer;
    socket.send("in ", { fin: false });
    socket.send("three ", { fin: false });
    socket.send("fragments", { fin: true });
    assert.equal(await peer.next(), "in three fragments");
    socket.ping("payload");
    assert.equal((await once(socket, "pong"))[0].toString(), "payload");
    socket.send("ping");
    assert.equal((await once(socket, "ping"))[0].toString(), "are you there");
    socket.close(4001, "good bye");
    const closed = await peer.closed;
    console.log(perMessageDeflate, socket.extensions, socket.protocol, closed.code, closed.reason);
    const other = await open();
    other.socket.send("close 4002 enough");
    const { code, reason } = await other.closed;
    console.log(code, reason);
  }
}

function serve() {
  const server = new WebSocket.WebSocketServer({ host: "127.0.0.1", port: 0, perMessageDeflate: true });
  server.on("listening", () => console.log(`listening on ${server.address().port}`));
  server.on("connection", (socket) => {
    socket.on("message", (data, isBinary) => {
      const text = isBinary ? "" : data.toString();
      if (text === "fragments") {
        ["one ", "zwöi ", "三"].forEach((part, index) => socket.send(part, { fin: index === 2 }));
      } else if (text === "ping") {
        socket.once("pong", (payload) => socket.send(`pong ${payload}`.slice(0, 4)));
        socket.ping("are you there");
      } else if (text.startsWith("close ")) {
        const [, code, reason] = text.split(" ");
        socket.close(Number(code), reason);
      } else {
        socket.send(data, { binary: isBinary });
      }
    });
    socket.on("close", (code, reason) => console.log(`closed ${code} ${reason}`));
  });
}

const [mode, ...rest] = process.argv.slice(2);
mode === "client" ? client(...rest) : serve();
