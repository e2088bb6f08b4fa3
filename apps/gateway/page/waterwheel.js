// The client of a Waterwheel gateway for browsers and for Node (22 or later): one file, no dependencies.
//
//     import { Waterwheel } from "/waterwheel.js";
//
//     const gateway = new Waterwheel({ name: "ann" });
//     gateway.subscribe("news.*", (message) => console.log(message.topic, message.data));
//     await gateway.publish("news.de", { any: "JSON" });
//
// The connection is made anew when it is lost, after a time that grows with each failure; subscriptions resume behind the
// last publication they have seen. What the history no longer has is told: see `onGap`.

const FIRST_RETRY_MS = 250;
const MAX_RETRY_MS = 20_000;
const COMMAND_TIMEOUT_MS = 10_000;
const CONNECT_TIMEOUT_MS = 15_000;
const SEEN_POSITIONS = 1024;

// Closes after which another attempt with the same token would fail too.
const FATAL_CODES = new Set([4120, 4121, 4122, 4123]);

/** An error of the gateway, or of the connection to it (then `code` is 0). */
export class GatewayError extends Error {
  constructor(code, name, message) {
    super(message);
    this.name = "GatewayError";
    this.code = code;
    this.reason = name;
  }
}

const lost = (message) => new GatewayError(0, "connection_lost", message);

/** True if a filter, such as "news.*" or "chat.>", matches a topic. */
export function matches(filter, topic) {
  const wanted = filter.split(".");
  const given = topic.split(".");
  for (let i = 0; i < wanted.length; i++) {
    if (i >= given.length) return false;
    if (wanted[i] === ">") return i === wanted.length - 1;
    if (wanted[i] !== "*" && wanted[i] !== given[i]) return false;
  }
  return wanted.length === given.length;
}

/** A subscription. Made by `Waterwheel.subscribe`. */
class Subscription {
  #gateway;
  #seen = new Set();

  constructor(gateway, filter, handler, options) {
    this.#gateway = gateway;
    this.filter = filter;
    this.handler = handler;
    this.options = options;
    /** The position of the last publication seen; pass it as `since` to resume in another page. */
    this.position = options.since ?? null;
    /** Settles when the gateway has answered the first time: with its answer, or with its refusal. */
    this.ready = new Promise((resolve, reject) => {
      this.resolve = resolve;
      this.reject = reject;
    });
    this.ready.catch(() => {}); // Told by "error" too: nobody has to wait for it.
  }

  unsubscribe() {
    return this.#gateway._remove(this);
  }

  // Two subscriptions may match one publication, and each is resumed by itself: what one recovers, the other has seen.
  _take(message) {
    if (this.#seen.has(message.position)) return;
    this.#seen.add(message.position);
    if (this.#seen.size > SEEN_POSITIONS) this.#seen.delete(this.#seen.values().next().value);
    this.position = message.position;
    this.handler(message);
  }
}

/**
 * A connection to a gateway that mends itself.
 *
 * Options, all of them optional:
 *   url       where the gateway is: "/ws" of this page's host unless set
 *   token     a token, or an async function that returns one, called before each connection
 *   name      the name that others see
 *   WebSocket the class to use
 *
 * Events, by `on(name, function)`: "open", "close" (with the error, or null), "error", "missed" (with a count), "state".
 */
export class Waterwheel {
  #options;
  #socket = null;
  #subscriptions = [];
  #waiting = new Map();
  #listeners = new Map();
  #nextId = 1;
  #failures = 0;
  #retry = null;
  #keepAlive = null;
  #closed = false;
  #whenOpen = [];

  constructor(options = {}) {
    this.#options = options;
    /** "connecting", "open", "waiting" or "closed". */
    this.state = "connecting";
    this.client = null;
    this.user = null;
    this.#open();
  }

  /** Calls `listener` at each event of this name. Returns a function that ends it. */
  on(name, listener) {
    const all = this.#listeners.get(name) ?? new Set();
    this.#listeners.set(name, all.add(listener));
    return () => all.delete(listener);
  }

  /**
   * Subscribes to a filter. `handler` is called with each message: { topic, data | text | bytes, position, from, time }.
   * Options: since (a position), presence (true), onPresence({ topic, client, user, entered }), onGap().
   */
  subscribe(filter, handler, options = {}) {
    if (this.#subscriptions.some((known) => known.filter === filter)) {
      throw new Error(`there is a subscription to ${filter} already`);
    }
    const subscription = new Subscription(this, filter, handler, options);
    this.#subscriptions.push(subscription);
    if (this.state === "open") this.#resume(subscription);
    return subscription;
  }

  /** Publishes JSON. Resolves to the position when the gateway has taken it. */
  publish(topic, data) {
    return this.command({ publish: { topic, data } }).then((ok) => ok.position);
  }

  /** Publishes a text as it is. */
  publishText(topic, text) {
    return this.command({ publish: { topic, text } }).then((ok) => ok.position);
  }

  /** Publishes several: [{ topic, data }, …]. Resolves to a result for each: { position } or { error }. */
  publishBatch(items) {
    return this.command({ publish: items }).then((ok) => ok.results);
  }

  /** Reads the history of a filter. Options: since, limit. */
  history(topic, options = {}) {
    const command = this.command({ history: { topic, ...options } });
    return command.then((ok) => ({ ...ok, publications: ok.publications.map(decoded) }));
  }

  /** Asks who is present in a topic. */
  presence(topic) {
    return this.command({ presence: { topic } });
  }

  /** Sends a command of the protocol, when the connection is open. Resolves to the `ok` of its answer. */
  async command(command, timeout = COMMAND_TIMEOUT_MS) {
    if (this.#closed) throw lost("the connection was closed");
    if (this.state !== "open") await this.#opened(timeout);
    return this.#send(command, timeout);
  }

  /** Closes the connection for good. */
  close() {
    this.#closed = true;
    clearTimeout(this.#retry);
    this.#socket?.close(1000);
    this.#end(null);
  }

  // The connection.

  async #open() {
    this.#become("connecting");
    const { url = "/ws", token, name, WebSocket: Socket = globalThis.WebSocket } = this.#options;
    let credential;
    try {
      credential = typeof token === "function" ? await token() : token;
    } catch (error) {
      this.#emit("error", error);
      return this.#failed();
    }
    if (this.#closed) return;
    let socket;
    try {
      const target = new URL(url, globalThis.location?.href);
      target.protocol = target.protocol.replace("http", "ws");
      socket = new Socket(target.href);
    } catch (error) {
      this.#emit("error", error);
      return this.close(); // The address will not get any better.
    }
    this.#socket = socket;
    const late = setTimeout(() => this.#drop(socket, lost("the gateway does not answer")), CONNECT_TIMEOUT_MS);
    socket.onopen = () => {
      const hello = {};
      if (credential) hello.token = credential;
      if (name) hello.name = name;
      this.#send({ connect: hello }, CONNECT_TIMEOUT_MS).then(
        (ok) => {
          clearTimeout(late);
          this.#connected(ok);
        },
        (error) => {
          clearTimeout(late);
          this.#emit("error", error);
          if (FATAL_CODES.has(4000 + error.code) && typeof token !== "function") return this.close();
          this.#drop(socket, error);
        },
      );
    };
    socket.onmessage = (event) => this.#received(event.data);
    socket.onclose = (event) => {
      clearTimeout(late);
      this.#drop(socket, lost(event.reason || `closed with ${event.code}`), event.code);
    };
  }

  #connected(ok) {
    this.#failures = 0;
    this.client = ok.client;
    this.user = ok.user ?? null;
    this.#become("open");
    this.#keepAlive = setInterval(() => this.#check(), 1000 * (ok.ping ?? 25));
    for (const subscription of this.#subscriptions) this.#resume(subscription);
    for (const { resolve } of this.#whenOpen.splice(0)) resolve();
    this.#emit("open", ok);
  }

  // A connection that has died without a word is found by a command that nobody answers.
  #check() {
    const socket = this.#socket;
    this.#send({ ping: {} }, COMMAND_TIMEOUT_MS).catch((error) => {
      if (error.reason === "timeout") this.#drop(socket, error);
    });
  }

  #drop(socket, error, code) {
    if (socket !== this.#socket) return;
    socket.onopen = socket.onmessage = socket.onclose = socket.onerror = null;
    try {
      socket.close();
    } catch {
      // It is closed.
    }
    this.#end(error);
    if (this.#closed) return;
    if (FATAL_CODES.has(code) && typeof this.#options.token !== "function") {
      this.#emit("error", error);
      return this.close();
    }
    this.#failed();
  }

  #failed() {
    const limit = Math.min(MAX_RETRY_MS, FIRST_RETRY_MS * 2 ** this.#failures++);
    this.#become("waiting");
    // Anywhere between half and all of the time: thousands of clients do not come back at once.
    this.#retry = setTimeout(() => this.#open(), limit / 2 + Math.random() * (limit / 2));
  }

  #end(error) {
    clearInterval(this.#keepAlive);
    const wasOpen = this.state === "open";
    this.#socket = null;
    const waiting = [...this.#waiting.values()];
    this.#waiting.clear();
    for (const entry of waiting) {
      clearTimeout(entry.timer);
      entry.reject(error ?? lost("the connection was closed"));
    }
    if (this.#closed) {
      this.#become("closed");
      for (const { reject } of this.#whenOpen.splice(0)) reject(lost("the connection was closed"));
    }
    if (wasOpen) this.#emit("close", error);
  }

  #opened(timeout) {
    return new Promise((resolve, reject) => {
      const entry = { resolve, reject };
      const timer = setTimeout(() => {
        this.#whenOpen = this.#whenOpen.filter((other) => other !== entry);
        reject(new GatewayError(0, "timeout", "there is no connection to the gateway"));
      }, timeout);
      entry.resolve = () => (clearTimeout(timer), resolve());
      entry.reject = (error) => (clearTimeout(timer), reject(error));
      this.#whenOpen.push(entry);
    });
  }

  #send(command, timeout) {
    const id = this.#nextId++;
    return new Promise((resolve, reject) => {
      const socket = this.#socket;
      if (socket?.readyState !== 1) return reject(lost("there is no connection to the gateway"));
      const timer = setTimeout(() => {
        this.#waiting.delete(id);
        reject(new GatewayError(0, "timeout", "the gateway does not answer"));
      }, timeout);
      this.#waiting.set(id, { resolve, reject, timer });
      socket.send(JSON.stringify({ id, ...command }));
    });
  }

  // Subscriptions.

  #resume(subscription) {
    const { filter, options } = subscription;
    const subscribe = { topic: filter };
    if (subscription.position) subscribe.since = subscription.position;
    if (options.presence) subscribe.presence = true;
    this.#send({ subscribe }, COMMAND_TIMEOUT_MS).then(
      (ok) => {
        if (!subscription.position) subscription.position = ok.position;
        if (ok.gap) options.onGap?.();
        subscription.resolve(ok);
      },
      (error) => {
        if (error.code === 0) return; // Tried again with the next connection.
        this.#subscriptions = this.#subscriptions.filter((other) => other !== subscription);
        subscription.reject(error);
        this.#emit("error", error);
      },
    );
  }

  _remove(subscription) {
    this.#subscriptions = this.#subscriptions.filter((other) => other !== subscription);
    if (this.state !== "open") return Promise.resolve();
    return this.#send({ unsubscribe: { topic: subscription.filter } }, COMMAND_TIMEOUT_MS).catch(() => {});
  }

  #received(text) {
    const message = JSON.parse(text);
    if (message.push) return this.#pushed(message);
    const entry = this.#waiting.get(message.id);
    if (!entry) {
      if (message.error) this.#emit("error", errorOf(message.error));
      return;
    }
    this.#waiting.delete(message.id);
    clearTimeout(entry.timer);
    if (message.error) entry.reject(errorOf(message.error));
    else entry.resolve(message.ok);
  }

  #pushed(push) {
    const matching = () => this.#subscriptions.filter(({ filter }) => matches(filter, push.topic));
    switch (push.push) {
      case "message": {
        const message = decoded(push);
        for (const subscription of matching()) subscription._take(message);
        break;
      }
      case "missed":
        this.#emit("missed", push.count);
        // What was dropped is in the history, if that reaches back far enough.
        for (const subscription of this.#subscriptions) {
          if (push.position) subscription.position = push.position;
          this.#send({ unsubscribe: { topic: subscription.filter } }, COMMAND_TIMEOUT_MS).catch(() => {});
          this.#resume(subscription);
        }
        break;
      case "join":
      case "leave": {
        const { topic, client, user } = push;
        for (const { options } of matching()) options.onPresence?.({ topic, client, user, entered: push.push === "join" });
        break;
      }
      case "unsubscribed":
        this.#subscriptions = this.#subscriptions.filter(({ filter }) => filter !== push.topic);
        this.#emit("error", errorOf(push.error));
        break;
    }
  }

  #become(state) {
    if (this.state === state) return;
    this.state = state;
    this.#emit("state", state);
  }

  #emit(name, value) {
    for (const listener of this.#listeners.get(name) ?? []) listener(value);
  }
}

const errorOf = ({ code, name, message }) => new GatewayError(code, name, message);

function decoded({ topic, data, text, base64, position, from, time }) {
  const message = { topic, position, from: from ?? null, time };
  if (base64 !== undefined) message.bytes = Uint8Array.from(atob(base64), (c) => c.charCodeAt(0));
  else if (text !== undefined) message.text = text;
  else message.data = data;
  return message;
}
