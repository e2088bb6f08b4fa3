// The client for browsers over a socket and a clock that the test moves. Run by `node --test`, from client_for_browsers.rs.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { afterEach, beforeEach, mock, test } from "node:test";

// As a data URL: a file of this ending is a module for browsers, and for some versions of Node it is not.
const source = readFileSync(new URL("../../../page/waterwheel.js", import.meta.url));
const { GatewayError, Waterwheel, matches } = await import(`data:text/javascript;base64,${source.toString("base64")}`);

class FakeSocket {
  static all = [];
  readyState = 0;
  bufferedAmount = 0;
  sent = [];

  constructor(url) {
    this.url = url;
    FakeSocket.all.push(this);
  }

  send(text) {
    this.sent.push(JSON.parse(text));
  }

  close() {
    this.readyState = 3;
  }

  open() {
    this.readyState = 1;
    this.onopen();
  }

  push(message) {
    this.onmessage({ data: JSON.stringify(message) });
  }

  answer(ok, { id } = this.sent.at(-1)) {
    this.push({ id, ok });
  }

  refuse(code, name = "some_error", { id } = this.sent.at(-1)) {
    this.push({ id, error: { code, name, message: `refused with ${code}` } });
  }

  lose(code = 1006, reason = "") {
    this.readyState = 3;
    this.onclose({ code, reason });
  }
}

const settled = () => new Promise((resolve) => setImmediate(resolve));
const socket = () => FakeSocket.all.at(-1);
const published = (topic, n, data = n) => ({ push: "message", topic, data, position: `00000001-${n}`, time: 1 });
const commands = (of) => of.sent.map(({ id, ...command }) => command);
let clients = [];

beforeEach(() => {
  FakeSocket.all = [];
  clients = [];
  mock.timers.enable({ apis: ["setTimeout", "setInterval", "Date"] });
});

afterEach(() => {
  for (const client of clients) client.close();
  mock.timers.reset();
  mock.restoreAll();
});

async function create(options = {}) {
  const client = new Waterwheel({ url: "ws://gateway/ws", WebSocket: FakeSocket, ...options });
  clients.push(client);
  client.told = [];
  for (const name of ["open", "close", "gap", "missed", "error"]) {
    client.on(name, (value) => client.told.push([name, value?.reason ?? value?.filter ?? value?.client ?? value]));
  }
  await settled();
  return client;
}

async function connect() {
  await settled();
  socket().open();
  socket().answer({ client: "c1", version: "1", ping: 25 });
  await settled();
}

async function connected(options) {
  const client = await create(options);
  await connect();
  return client;
}

async function reconnected() {
  mock.timers.tick(20_000);
  await connect();
}

test("g02 filters match as the gateway says", () => {
  const yes = [["a", "a"], ["a.*", "a.b"], ["*.b", "a.b"], ["a.>", "a.b"], ["a.>", "a.b.c"], [">", "a"], ["a.>.c", "a.>.c"]];
  const no = [["a", "b"], ["a", "a.b"], ["a.b", "a"], ["a.*", "a"], ["a.*", "a.b.c"], ["a.>", "a"], ["a*", "ab"], ["a.>.c", "a.b.c"]];
  for (const [filter, topic] of yes) assert.ok(matches(filter, topic), `${filter} ${topic}`);
  for (const [filter, topic] of no) assert.ok(!matches(filter, topic), `${filter} ${topic}`);
});

test("g01 the first command says who the client is", async () => {
  const client = await create({ token: "t", name: "ann" });
  socket().open();
  assert.deepEqual(socket().sent, [{ id: 1, connect: { token: "t", name: "ann" } }]);
  assert.equal(client.state, "connecting");
  socket().answer({ client: "c7", user: "ann", ping: 25 });
  assert.deepEqual([client.state, client.client, client.user], ["open", "c7", "ann"]);
});

test("g01 each command has a promise, settled by the answer with its id, in whatever order", async () => {
  const client = await connected();
  const first = client.publish("a", { n: 1 });
  const second = client.publish("a", { n: 2 });
  await settled();
  const [, one, two] = socket().sent;
  socket().push({ id: two.id, error: { code: 106, name: "invalid_topic", message: "no" } });
  socket().push({ id: one.id, ok: { position: "00000001-5" } });
  assert.equal(await first, "00000001-5");
  await assert.rejects(second, { name: "GatewayError", code: 106, reason: "invalid_topic" });
});

test("g01 messages are decoded by the form of their content", async () => {
  const client = await connected();
  const got = [];
  client.subscribe("a", ({ position, time, ...rest }) => got.push(rest));
  socket().answer({ position: "00000001-0", recovered: 0, gap: false });
  socket().push({ push: "message", topic: "a", data: { x: 1 }, position: "00000001-1", from: "ann" });
  socket().push({ push: "message", topic: "a", text: "hello", position: "00000001-2" });
  socket().push({ push: "message", topic: "a", base64: "AP8=", position: "00000001-3" });
  assert.deepEqual(got, [
    { topic: "a", from: "ann", data: { x: 1 } },
    { topic: "a", from: null, text: "hello" },
    { topic: "a", from: null, bytes: Uint8Array.of(0, 255) },
  ]);
});

test("g01 a command that nobody answers fails when its time is over, and its late answer is ignored", async () => {
  const client = await connected();
  const command = client.publish("a", 1);
  await settled();
  mock.timers.tick(10_000);
  await assert.rejects(command, { reason: "timeout", code: 0 });
  socket().answer({ position: "00000001-1" });
  assert.deepEqual(client.told, [["open", "c1"]]);
});

test("g01 a command waits for the connection, and goes out once it is open", async () => {
  const client = await create();
  const command = client.publish("a", 1);
  await connect();
  assert.deepEqual(commands(socket())[1], { publish: { topic: "a", data: 1 } });
  socket().answer({ position: "00000001-1" });
  assert.equal(await command, "00000001-1");
});

test("g01 without a connection a command fails when its time is over", async () => {
  const client = await create();
  const command = client.publish("a", 1);
  mock.timers.tick(10_000);
  await assert.rejects(command, { reason: "timeout" });
});

test("g01 commands without an answer are limited, connected or not", async () => {
  const client = await create({ maxWaiting: 3 });
  const before = [1, 2, 3].map((n) => client.publish("a", n).catch(({ reason }) => reason));
  await assert.rejects(client.publish("a", 4), { reason: "queue_full", message: "3 commands wait for an answer" });
  await connect();
  await assert.rejects(client.publish("a", 5), { reason: "queue_full" });
  for (const command of socket().sent.slice(1)) socket().answer({ position: "p" }, command);
  assert.deepEqual(await Promise.all(before), ["p", "p", "p"]);
  const after = client.publish("a", 6);
  await settled();
  socket().answer({ position: "q" });
  assert.equal(await after, "q");
});

test("g01 what the gateway does not read is limited", async () => {
  const client = await connected();
  socket().bufferedAmount = (4 << 20) + 1;
  await assert.rejects(client.publish("a", 1), { reason: "queue_full" });
  assert.equal(socket().sent.length, 1);
});

test("g02 attempts come after 0.5, 1, 2 … 20 seconds, less a random part", async () => {
  for (const [random, part] of [[0, 0.25], [1, 1]]) {
    mock.method(Math, "random", () => random);
    const client = await create();
    for (const seconds of [0.5, 1, 2, 4, 8, 16, 20, 20]) {
      const attempts = FakeSocket.all.length;
      socket().lose();
      assert.equal(client.state, "waiting");
      mock.timers.tick(1000 * seconds * part - 1);
      await settled();
      assert.equal(FakeSocket.all.length, attempts, `too early after ${seconds} s`);
      mock.timers.tick(1);
      await settled();
      assert.equal(FakeSocket.all.length, attempts + 1, `too late after ${seconds} s`);
    }
    client.close();
  }
});

test("g02 a connection that lasts makes the next attempt early again; one that does not, does not", async () => {
  mock.method(Math, "random", () => 1);
  const client = await create();
  for (const wait of [500, 1000, 2000]) {
    await connect();
    socket().lose();
    mock.timers.tick(wait);
  }
  await connect();
  mock.timers.tick(5000);
  socket().lose();
  const attempts = FakeSocket.all.length;
  mock.timers.tick(500);
  await settled();
  assert.equal(FakeSocket.all.length, attempts + 1);
  assert.equal(client.state, "connecting");
});

test("g02 a gateway that accepts and says nothing is tried again", async () => {
  await create();
  socket().open();
  mock.timers.tick(15_000);
  mock.timers.tick(500);
  await settled();
  assert.equal(FakeSocket.all.length, 2);
});

test("g02 a subscription resumes behind the last message that it has seen", async () => {
  const client = await connected();
  const got = [];
  const subscription = client.subscribe("a.*", ({ data }) => got.push(data));
  assert.deepEqual(commands(socket())[1], { subscribe: { topic: "a.*" } });
  socket().answer({ position: "00000001-3", recovered: 0, gap: false });
  assert.deepEqual(await subscription.ready, { position: "00000001-3", recovered: 0, gap: false });
  socket().push(published("a.b", 4));
  socket().lose();
  await reconnected();
  assert.deepEqual(commands(socket())[1], { subscribe: { topic: "a.*", since: "00000001-4" } });
  socket().answer({ position: "00000001-6", recovered: 2, gap: false });
  socket().push(published("a.b", 5));
  socket().push(published("a.b", 6));
  socket().push(published("a.b", 7));
  assert.deepEqual(got, [4, 5, 6, 7]);
  assert.deepEqual(client.told.map(([name]) => name), ["open", "close", "open"]);
});

test("g02 without a message it resumes at the position of the answer", async () => {
  const client = await connected();
  client.subscribe("a", () => {});
  socket().answer({ position: "00000001-9", recovered: 0, gap: false });
  socket().lose();
  await reconnected();
  assert.deepEqual(commands(socket())[1], { subscribe: { topic: "a", since: "00000001-9" } });
});

test("g02 a gap is told, with its filter", async () => {
  const client = await connected();
  client.subscribe("a", () => {}, { since: "00000001-9" });
  socket().answer({ position: "00000002-1", recovered: 0, gap: true });
  assert.deepEqual(client.told.at(-1), ["gap", "a"]);
});

test("g02 recovered messages are for their subscription alone", async () => {
  const client = await connected();
  const [all, old] = [[], []];
  client.subscribe("a.>", ({ data }) => all.push(data));
  socket().answer({ position: "00000001-5", recovered: 0, gap: false });
  client.subscribe("a.b", ({ data }) => old.push(data), { since: "00000001-2" });
  socket().answer({ position: "00000001-5", recovered: 2, gap: false });
  for (const n of [3, 5, 6]) socket().push(published("a.b", n));
  assert.deepEqual([all, old], [[6], [3, 5, 6]]);
});

test("g02 while a subscription waits for its answer, messages of others do not move its position", async () => {
  const client = await connected();
  const got = [];
  client.subscribe("a.>", () => {});
  socket().answer({ position: "00000001-1", recovered: 0, gap: false });
  client.subscribe("a.b", ({ data }) => got.push(data), { since: "00000001-2" });
  const waiting = socket().sent.at(-1);
  socket().push(published("a.b", 5)); // For the first one; it comes again for the second.
  socket().lose();
  await reconnected();
  assert.deepEqual(commands(socket()).slice(1), [
    { subscribe: { topic: "a.>", since: "00000001-5" } },
    { subscribe: { topic: "a.b", since: "00000001-2" } },
  ]);
  assert.equal(waiting.id < socket().sent[0].id, true, "ids are not used again");
  socket().answer({ position: "00000001-5", recovered: 0, gap: false }, socket().sent[1]);
  socket().answer({ position: "00000001-5", recovered: 2, gap: false }, socket().sent[2]);
  for (const n of [3, 5]) socket().push(published("a.b", n));
  assert.deepEqual(got, [3, 5]);
});

test("g02 a subscription that ends while it recovers swallows nothing of others", async () => {
  const client = await connected();
  const got = [];
  client.subscribe("a", ({ data }) => got.push(data));
  socket().answer({ position: "00000001-5", recovered: 0, gap: false });
  const other = client.subscribe("*", () => assert.fail("it has ended"), { since: "00000001-2" });
  const command = socket().sent.at(-1);
  other.unsubscribe();
  socket().answer({ position: "00000001-5", recovered: 2, gap: false }, command);
  for (const n of [4, 5, 6]) socket().push(published("a", n));
  assert.deepEqual(got, [6]);
  await other.ended;
});

test("g02 after messages were dropped, all subscriptions begin again behind the last one that came", async () => {
  const client = await connected();
  const got = [];
  client.subscribe("a", ({ data }) => got.push(data));
  socket().answer({ position: "00000001-0", recovered: 0, gap: false });
  socket().push(published("a", 1));
  socket().push({ push: "missed", count: 2, position: "00000001-1" });
  assert.deepEqual(client.told.at(-1), ["missed", 2]);
  const [, , ended, again] = socket().sent;
  assert.deepEqual(commands(socket()).slice(2), [
    { unsubscribe: { topic: "a" } },
    { subscribe: { topic: "a", since: "00000001-1" } },
  ]);
  socket().push(published("a", 4)); // Was on its way: comes again.
  socket().answer({}, ended);
  socket().answer({ position: "00000001-4", recovered: 3, gap: false }, again);
  for (const n of [2, 3, 4, 5]) socket().push(published("a", n));
  assert.deepEqual(got, [1, 2, 3, 4, 5]);
});

test("g02 presence is told to the subscriptions that want it", async () => {
  const client = await connected();
  const told = [];
  client.subscribe("room.*", () => {}, { presence: true, onPresence: (event) => told.push(event) });
  assert.deepEqual(commands(socket())[1], { subscribe: { topic: "room.*", presence: true } });
  socket().answer({ position: "00000001-0", recovered: 0, gap: false });
  socket().push({ push: "join", topic: "room.1", client: "c5", user: "ann" });
  socket().push({ push: "leave", topic: "room.1", client: "c6" });
  socket().push({ push: "join", topic: "other.1", client: "c7" });
  assert.deepEqual(told, [
    { topic: "room.1", client: "c5", user: "ann", entered: true },
    { topic: "room.1", client: "c6", user: null, entered: false },
  ]);
});

test("g02 a refusal that passes is tried again, another one ends the subscription", async () => {
  const client = await connected();
  const passing = client.subscribe("a", () => {});
  socket().refuse(140, "engine_unavailable");
  mock.timers.tick(1000);
  assert.deepEqual(commands(socket()).slice(1), [{ subscribe: { topic: "a" } }, { subscribe: { topic: "a" } }]);
  socket().answer({ position: "00000001-0", recovered: 0, gap: false });
  await passing.ready;
  const refused = client.subscribe("b", () => {});
  socket().refuse(123, "not_permitted");
  await assert.rejects(refused.ready, { code: 123 });
  await refused.ended;
  assert.deepEqual(client.told.at(-1), ["error", "not_permitted"]);
  socket().lose();
  await reconnected();
  assert.deepEqual(commands(socket()).slice(1), [{ subscribe: { topic: "a", since: "00000001-0" } }]);
});

test("g03 a subscription that the gateway ends is told and does not come back", async () => {
  const client = await connected();
  const subscription = client.subscribe("a", () => {});
  socket().answer({ position: "00000001-0", recovered: 0, gap: false });
  socket().push({ push: "unsubscribed", topic: "a", error: { code: 123, name: "not_permitted", message: "no" } });
  await subscription.ended;
  assert.deepEqual(client.told.at(-1), ["error", "not_permitted"]);
  socket().lose();
  await reconnected();
  assert.equal(socket().sent.length, 1);
});

const jwt = (exp) => `x.${Buffer.from(JSON.stringify({ exp })).toString("base64url")}.y`;

test("g03 a function is asked for a token before each connection and before the token expires", async () => {
  let asked = 0;
  const tokens = [jwt(100), jwt(200), jwt(300)];
  await connected({ token: async () => tokens[asked++] });
  assert.deepEqual(commands(socket()), [{ connect: { token: tokens[0] } }]);
  mock.timers.tick(69_999);
  await settled();
  const renewals = () => commands(socket()).filter(({ ping }) => !ping).slice(1);
  assert.deepEqual(renewals(), []);
  for (const command of socket().sent.slice(1)) socket().answer({}, command);
  mock.timers.tick(1);
  await settled();
  assert.deepEqual(renewals(), [{ connect: { token: tokens[1] } }]);
  socket().answer({ client: "c1" });
  await settled();
  socket().lose(4122, "token expired");
  await reconnected();
  assert.deepEqual(commands(socket()), [{ connect: { token: tokens[2] } }]);
});

test("g03 a token that fails would fail again: the client closes, and says why", async () => {
  const client = await create({ token: "t" });
  socket().open();
  socket().refuse(121, "token_invalid");
  await settled();
  assert.equal(client.state, "closed");
  assert.deepEqual(client.told[0], ["error", "token_invalid"]);
  mock.timers.tick(60_000);
  await settled();
  assert.equal(FakeSocket.all.length, 1);
  const expired = await connected({ token: "t" });
  socket().lose(4122, "the token has expired");
  assert.equal(expired.state, "closed");
});

test("g03 a function that fails to bring a token is asked again later", async () => {
  let asked = 0;
  const client = await create({ token: () => (asked++ ? "good" : Promise.reject(new Error("no session"))) });
  assert.equal(client.state, "waiting");
  await reconnected();
  assert.deepEqual([asked, client.state], [2, "open"]);
});

test("g02 the gateway may ask not to come back", async () => {
  const client = await connected();
  socket().push({ push: "closing", reason: "go away", reconnect: false });
  socket().lose(4130);
  assert.equal(client.state, "closed");
  const other = await connected();
  socket().push({ push: "closing", reason: "restart", reconnect: true });
  socket().lose(4141);
  assert.equal(other.state, "waiting");
});

test("g02 a connection that died without a word is found by a ping", async () => {
  const client = await connected();
  mock.timers.tick(25_000);
  assert.deepEqual(commands(socket())[1], { ping: {} });
  mock.timers.tick(10_000);
  assert.equal(client.state, "waiting");
});

test("g01 what is not JSON ends the connection, and a failing handler only itself", async () => {
  const client = await connected();
  const got = [];
  const uncaught = new Promise((resolve) => process.setUncaughtExceptionCaptureCallback(resolve));
  client.subscribe("a", () => {
    throw new Error("of the handler");
  });
  socket().answer({ position: "00000001-0", recovered: 0, gap: false });
  client.subscribe("*", ({ data }) => got.push(data));
  socket().answer({ position: "00000001-0", recovered: 0, gap: false });
  socket().push(published("a", 1));
  assert.equal((await uncaught).message, "of the handler");
  process.setUncaughtExceptionCaptureCallback(null);
  assert.deepEqual(got, [1]);
  socket().onmessage({ data: "{" });
  assert.equal(client.state, "waiting");
});

test("g01 closing settles everything that waits", async () => {
  const client = await connected();
  const command = client.publish("a", 1);
  await settled();
  const subscription = client.subscribe("b", () => {});
  client.close();
  await assert.rejects(command, GatewayError);
  await assert.rejects(subscription.ready, GatewayError);
  await subscription.ended;
  await assert.rejects(client.publish("a", 2), GatewayError);
  assert.throws(() => client.subscribe("c", () => {}), GatewayError);
  const waiting = await create();
  const late = waiting.publish("a", 3);
  waiting.close();
  await assert.rejects(late, GatewayError);
  mock.timers.tick(60_000);
  await settled();
  assert.equal(FakeSocket.all.length, 2);
  assert.deepEqual(client.told.map(([name]) => name), ["open", "close"]);
});
