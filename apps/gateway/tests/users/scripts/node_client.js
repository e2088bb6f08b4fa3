// A client that speaks through Node's ws. Arguments, input and output are those of python_client.py.

const readline = require("node:readline");
const WebSocket = require("ws");

const [url, topic] = process.argv.slice(2);
let socket;
let position;
let isLeaving = false;

function enter() {
  isLeaving = false;
  socket = new WebSocket(url);
  socket.on("open", () => socket.send(JSON.stringify({ id: 1, subscribe: { topic, since: position } })));
  socket.on("message", (bytes) => take(JSON.parse(bytes)));
  socket.on("error", () => {}); // A close follows.
  socket.on("close", () => console.log(isLeaving ? "left" : "lost"));
}

function take({ id, ok, error, push, text, position: at }) {
  if (push === "message") {
    position = at;
    console.log(`message ${text}`);
  } else if (error) {
    console.log(`error ${error.name}`);
  } else if (id === 1) {
    if (!ok.recovered) position = ok.position;
    console.log(`subscribed gap=${ok.gap}`);
  } else if (id === 2) {
    console.log("published");
  }
}

enter();
readline.createInterface({ input: process.stdin }).on("line", (line) => {
  const [command, topic, ...words] = line.split(" ");
  if (command === "publish") socket.send(JSON.stringify({ id: 2, publish: { topic, text: words.join(" ") } }));
  if (command === "return") enter();
  if (command === "leave") {
    isLeaving = true;
    socket.close();
  }
}).on("close", () => process.exit(0));
