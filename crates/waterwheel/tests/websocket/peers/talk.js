// A talk with the echo server of the tests by the WebSocket of a browser, or another one with its interface.

// Opens a connection by `create`, which is given the subprotocols to offer. Returns the socket, `next` for its next
// message, and `closed` for the event of its end.
async function connect(create) {
  const socket = create(["v1", "v2"]);
  socket.binaryType = "arraybuffer";
  const messages = [], waiting = [];
  socket.addEventListener("message", ({ data }) => {
    const message = typeof data === "string" ? data : new Uint8Array(data);
    waiting.length ? waiting.shift()(message) : messages.push(message);
  });
  const closed = new Promise((resolve) => socket.addEventListener("close", resolve));
  await new Promise((resolve, reject) => {
    socket.addEventListener("open", resolve);
    socket.addEventListener("error", reject);
  });
  const next = () =>
    messages.length ? Promise.resolve(messages.shift()) : new Promise((resolve) => waiting.push(resolve));
  return { socket, next, closed };
}

// Sends texts and bytes, of a mebibyte too, and compares what comes back.
async function talk({ socket, next }) {
  const bytes = Uint8Array.from({ length: 256 }, (_, index) => index);
  const messages = ["Grüße, 漢字 😀", "", bytes, new Uint8Array(0), "ä".repeat(1 << 19), new Uint8Array(1 << 20).fill(7)];
  for (const message of messages) {
    socket.send(message);
    const answer = await next();
    if (typeof answer !== typeof message || answer.length !== message.length) throw new Error(`${answer}`.slice(0, 100));
    for (let index = 0; index < message.length; index++) {
      if (answer[index] !== message[index]) throw new Error(`at ${index}`);
    }
  }
  socket.send("fragments");
  const joined = await next();
  if (joined !== "one zwöi 三") throw new Error(joined);
}

if (typeof module !== "undefined") module.exports = { connect, talk };
