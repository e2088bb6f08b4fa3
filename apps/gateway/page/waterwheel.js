// The client of a Waterwheel gateway for browsers and for Node: one file, no dependencies.
//
//     import { Waterwheel } from "/waterwheel.js";
//
//     const gateway = new Waterwheel({ name: "ann" });
//     gateway.subscribe("news.*", (message) => console.log(message.topic, message.data));
//     await gateway.publish("news.de", { any: "JSON" });
//
// A classic script, which cannot have an import statement, loads it by a call:
//
//     import("/waterwheel.js").then(({ Waterwheel }) => { … });
//
// The connection is made anew when it is lost, after a time that grows with each failure; subscriptions resume behind the
// last publication they have seen. What the history no longer has is told by the event "gap".

const FIRST_RETRY_MS = 500;
const MAX_RETRY_MS = 20_000;
// A connection that has lasted this long was a good one: the next attempt is made soon.
const STABLE_MS = 5_000;
const COMMAND_TIMEOUT_MS = 10_000;
const CONNECT_TIMEOUT_MS = 15_000;
// Commands without an answer, those that wait for a connection included.
const MAX_WAITING = 1_000;
const MAX_BUFFERED_BYTES = 4 << 20;
const SEEN_POSITIONS = 1_024;
// A token is renewed this long before it expires, at the latest.
const RENEW_MS = 30_000;
const MAX_TIMER_MS = 2 ** 31 - 1;

// Errors after which the same token fails again: token_required, token_invalid, token_expired, not_permitted.
const TOKEN_ERRORS = new Set([120, 121, 122, 123]);
// Errors that pass: rate_exceeded, engine_unavailable, closing.
const TEMPORARY_ERRORS = new Set([111, 140, 141]);

/** An error of the gateway, or of the connection to it (then `code` is 0). `reason` is its name, such as "invalid_topic". */
export class GatewayError extends Error {
  constructor(code, reason, message) {
    super(message);
    this.name = "GatewayError";
    this.code = code;
    this.reason = reason;
  }
}

const lost = (message) => new GatewayError(0, "connection_lost", message);
const timedOut = (message) => new GatewayError(0, "timeout", message);
const errorOf = ({ code, name, message }) => new GatewayError(code, name, message);

/** True if a filter, such as "news.*" or "chat.>", matches a topic. */
export function matches(filter, topic) {
  const wanted = filter.split(".");
  const given = topic.split(".");
  for (let i = 0; i < wanted.length; i++) {
    if (i >= given.length) return false;
    if (wanted[i] === ">" && i === wanted.length - 1) return true;
    if (wanted[i] !== "*" && wanted[i] !== given[i]) return false;
  }
  return wanted.length === given.length;
}

/** A subscription. Made by `Waterwheel.subscribe`. */
class Subscription {
  #seen = new Set();
  #remove;

  constructor(filter, handler, options, remove) {
    this.filter = filter;
    this.handler = handler;
    this.options = options;
    this.#remove = remove;
    /** The position of the last publication seen; pass it as `since` to resume in another page. */
    this.position = options.since ?? null;
    // Before the gateway has answered, what matches is for other subscriptions, and comes again for this one.
    this.isLive = false;
    /** Settles when the gateway has answered the first time: with its answer, or with its refusal. */
    this.ready = new Promise((resolve, reject) => Object.assign(this, { resolve, reject }));
    this.ready.catch(() => {}); // Told by "error" too: nobody has to wait for it.
    /** Resolves when the subscription has ended, whoever ended it. */
    this.ended = new Promise((resolve) => (this.end = resolve));
  }

  /** Ends the subscription. */
  unsubscribe() {
    return this.#remove(this);
  }

  // After "missed", what had come behind the position comes again.
  take(message) {
    if (this.#seen.has(message.position)) return;
    this.#seen.add(message.position);
    if (this.#seen.size > SEEN_POSITIONS) this.#seen.delete(this.#seen.values().next().value);
    this.position = message.position;
    call(this.handler, message);
  }
}

/**
 * A connection to a gateway that mends itself.
 *
 * Options, all of them optional:
 *   url        where the gateway is: "/ws" of this page's host unless set
 *   token      a token, or a function that returns one or a promise of one: called before each connection, and before a
 *              token (a JWT) expires
 *   name       the name that others see
 *   maxWaiting how many commands may be without an answer; one more fails with "queue_full"
 *   WebSocket  the class to use, where there is none (Node before version 22): that of the package "ws", for example
 *
 * Events, by `on(name, function)`:
 *   "open"   with the answer of the gateway: { client, user, version, ping }
 *   "close"  with the error, or null after `close()`
 *   "state"  with "connecting", "open", "waiting" or "closed"
 *   "gap"    with { filter }: the history no longer had what this subscription has missed
 *   "missed" with a count: this client was too slow; what was dropped comes again from the history
 *   "error"  with an error that no promise has: of a connection, a token or a subscription
 */
export class Waterwheel {
  #options;
  #socket = null;
  #subscriptions = [];
  #recovery = null;
  #waiting = new Map();
  #whenOpen = new Set();
  #listeners = new Map();
  #nextId = 1;
  #failures = 0;
  #openedAt = 0;
  #isFinal = false;
  #timers = { retry: null, keepAlive: null, renewal: null };

  constructor(options = {}) {
    this.#options = { url: "/ws", maxWaiting: MAX_WAITING, ...options };
    /** "connecting", "open", "waiting" or "closed". */
    this.state = "connecting";
    this.client = null;
    this.user = null;
    this.#connect();
  }

  /** Calls `listener` at each event of this name. Returns a function that ends it. */
  on(name, listener) {
    const all = this.#listeners.get(name) ?? new Set();
    this.#listeners.set(name, all.add(listener));
    return () => all.delete(listener);
  }

  /**
   * Subscribes to a filter. `handler` is called with each message: { topic, data | text | bytes, position, from, time }.
   * Options: since (a position), presence (true), onPresence({ topic, client, user, entered }).
   */
  subscribe(filter, handler, options = {}) {
    if (this.state === "closed") throw lost("the connection was closed");
    if (this.#subscriptions.some((known) => known.filter === filter)) {
      throw new Error(`there is a subscription to ${filter} already`);
    }
    const subscription = new Subscription(filter, handler, options, (self) => this.#unsubscribe(self));
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
    if (this.state === "closed") throw lost("the connection was closed");
    const { maxWaiting } = this.#options;
    if (this.#waiting.size + this.#whenOpen.size >= maxWaiting) {
      throw new GatewayError(0, "queue_full", `${maxWaiting} commands wait for an answer`);
    }
    if (this.state !== "open") await this.#opened(timeout);
    return this.#request(command, timeout);
  }

  /** Closes the connection for good. */
  close() {
    if (this.state === "closed") return;
    const socket = this.#socket;
    this.#disconnected(null, "closed");
    release(socket);
    for (const subscription of this.#subscriptions.splice(0)) {
      subscription.reject(lost("the connection was closed"));
      subscription.end();
    }
  }

  // The connection.

  async #connect() {
    this.#become("connecting");
    const { url, name, WebSocket: Socket = globalThis.WebSocket } = this.#options;
    let token;
    try {
      token = await this.#token();
    } catch (error) {
      this.#emit("error", error);
      return this.#retry();
    }
    if (this.state === "closed") return;
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
    this.#isFinal = false;
    const late = setTimeout(() => this.#lose(socket, timedOut("the gateway does not answer")), CONNECT_TIMEOUT_MS);
    socket.onopen = () => {
      this.#send({ connect: identity(token, name) }, CONNECT_TIMEOUT_MS, (error, ok) => {
        clearTimeout(late);
        if (error) this.#refused(socket, error);
        else this.#connected(ok, token);
      });
    };
    socket.onmessage = (event) => this.#received(socket, event.data);
    socket.onerror = () => {}; // Followed by a close.
    socket.onclose = ({ code, reason }) => {
      clearTimeout(late);
      const error = code > 4000 ? new GatewayError(code - 4000, "closed", reason || `closed with ${code}`) : null;
      this.#lose(socket, error ?? lost(reason || `closed with ${code}`));
    };
  }

  #connected(ok, token) {
    this.#openedAt = Date.now();
    this.client = ok.client;
    this.user = ok.user ?? null;
    if (ok.ping > 0) this.#timers.keepAlive = setInterval(() => this.#check(), 1000 * ok.ping);
    this.#planRenewal(token);
    this.#become("open");
    for (const subscription of this.#subscriptions) this.#resume(subscription);
    for (const { resolve } of [...this.#whenOpen]) resolve();
    this.#emit("open", ok);
  }

  // A connection that has died without a word is found by a command that nobody answers.
  #check() {
    const socket = this.#socket;
    this.#send({ ping: {} }, COMMAND_TIMEOUT_MS, (error) => {
      if (error?.reason === "timeout") this.#lose(socket, error);
    });
  }

  #refused(socket, error) {
    if (error.code !== 0) this.#emit("error", error);
    this.#lose(socket, error);
  }

  #lose(socket, error) {
    if (socket !== this.#socket) return;
    release(socket);
    const isFinal = this.#isFinal || TOKEN_ERRORS.has(error.code);
    this.#disconnected(error, "waiting");
    if (!isFinal || typeof this.#options.token === "function") return this.#retry();
    this.#emit("error", error);
    this.close();
  }

  #retry() {
    if (this.state === "closed") return;
    if (this.#openedAt > 0 && Date.now() - this.#openedAt >= STABLE_MS) this.#failures = 0;
    this.#openedAt = 0;
    const limit = Math.min(MAX_RETRY_MS, FIRST_RETRY_MS * 2 ** this.#failures++);
    this.#become("waiting");
    // Anywhere between a quarter and all of the time: thousands of clients do not come back at once.
    this.#timers.retry = setTimeout(() => this.#connect(), limit * (0.25 + 0.75 * Math.random()));
  }

  #disconnected(error, state) {
    const wasOpen = this.state === "open";
    this.#socket = this.#recovery = null;
    for (const name of Object.keys(this.#timers)) clearTimeout(this.#timers[name]);
    for (const subscription of this.#subscriptions) subscription.isLive = false;
    this.#become(state);
    const entries = [...this.#waiting.values()];
    this.#waiting.clear();
    for (const { done, timer } of entries) {
      clearTimeout(timer);
      done(error ?? lost("the connection was closed"));
    }
    if (state === "closed") {
      for (const { reject } of [...this.#whenOpen]) reject(lost("the connection was closed"));
    }
    if (wasOpen) this.#emit("close", error);
  }

  #opened(timeout) {
    return new Promise((resolve, reject) => {
      const settle = (act) => (error) => {
        clearTimeout(timer);
        this.#whenOpen.delete(entry);
        act(error);
      };
      const entry = { resolve: settle(resolve), reject: settle(reject) };
      const timer = setTimeout(() => entry.reject(timedOut("there is no connection to the gateway")), timeout);
      this.#whenOpen.add(entry);
    });
  }

  // Tokens.

  async #token() {
    const { token } = this.#options;
    return typeof token === "function" ? token() : token;
  }

  // Only who can make a new token renews the old one.
  #planRenewal(token) {
    const expires = typeof this.#options.token === "function" ? expiryOf(token) : null;
    if (expires === null) return;
    const left = expires - Date.now();
    const delay = Math.max(left - RENEW_MS, left / 2, 1000);
    this.#timers.renewal = setTimeout(() => this.#renew(), Math.min(delay, MAX_TIMER_MS));
  }

  async #renew() {
    const socket = this.#socket;
    try {
      const token = await this.#token();
      if (socket === null || socket !== this.#socket) return;
      await this.#request({ connect: identity(token) }, COMMAND_TIMEOUT_MS);
      if (socket === this.#socket) this.#planRenewal(token);
    } catch (error) {
      this.#emit("error", error); // The gateway closes when the old token expires; then a new one is asked for again.
    }
  }

  // Commands.

  #request(command, timeout) {
    return new Promise((resolve, reject) => {
      this.#send(command, timeout, (error, ok) => (error ? reject(error) : resolve(ok)));
    });
  }

  // `done` is called once, with an error or with the answer, before anything else that the gateway has sent is looked at.
  #send(command, timeout, done) {
    const socket = this.#socket;
    if (socket?.readyState !== 1) return done(lost("there is no connection to the gateway"));
    if (socket.bufferedAmount > MAX_BUFFERED_BYTES) {
      return done(new GatewayError(0, "queue_full", "the gateway does not take what was sent before"));
    }
    const id = this.#nextId++;
    const timer = setTimeout(() => {
      this.#waiting.delete(id);
      done(timedOut("the gateway does not answer"));
    }, timeout);
    this.#waiting.set(id, { done, timer });
    socket.send(JSON.stringify({ id, ...command }));
  }

  #received(socket, text) {
    let message;
    try {
      message = JSON.parse(text);
    } catch {
      return this.#lose(socket, lost("the gateway has sent something that is not JSON"));
    }
    if (message.push) return this.#pushed(message);
    const error = message.error && errorOf(message.error);
    const entry = this.#waiting.get(message.id);
    if (!entry) return error && this.#emit("error", error);
    this.#waiting.delete(message.id);
    clearTimeout(entry.timer);
    entry.done(error, message.ok);
  }

  // Subscriptions.

  #resume(subscription) {
    const { filter, options, position } = subscription;
    const subscribe = { topic: filter };
    if (position) subscribe.since = position;
    if (options.presence) subscribe.presence = true;
    const socket = this.#socket;
    subscription.isLive = false;
    this.#send({ subscribe }, COMMAND_TIMEOUT_MS, (error, ok) => {
      if (error) return this.#notSubscribed(subscription, socket, error);
      // The next messages are those of this subscription alone.
      if (ok.recovered > 0) this.#recovery = { subscription, left: ok.recovered, position: ok.position };
      else subscription.position = ok.position;
      subscription.isLive = true;
      if (ok.gap) this.#emit("gap", { filter });
      subscription.resolve(ok);
    });
  }

  #notSubscribed(subscription, socket, error) {
    if (!this.#subscriptions.includes(subscription) || socket !== this.#socket) return;
    if (error.reason === "timeout") return this.#lose(socket, error);
    if (error.code === 0 || TEMPORARY_ERRORS.has(error.code)) {
      const again = () => socket === this.#socket && this.#subscriptions.includes(subscription) && this.#resume(subscription);
      setTimeout(again, FIRST_RETRY_MS * (1 + Math.random()));
      return;
    }
    this.#ended(subscription, error);
  }

  #ended(subscription, error) {
    this.#subscriptions = this.#subscriptions.filter((other) => other !== subscription);
    subscription.reject(error);
    subscription.end();
    this.#emit("error", error);
  }

  async #unsubscribe(subscription) {
    if (!this.#subscriptions.includes(subscription)) return;
    this.#subscriptions = this.#subscriptions.filter((other) => other !== subscription);
    subscription.reject(lost("the subscription was ended"));
    subscription.end();
    if (this.state !== "open") return;
    await this.#request({ unsubscribe: { topic: subscription.filter } }, COMMAND_TIMEOUT_MS).catch(() => {});
  }

  #pushed(push) {
    switch (push.push) {
      case "message":
        return this.#published(decoded(push));
      case "missed":
        return this.#missed(push);
      case "join":
      case "leave": {
        const { topic, client, user } = push;
        const event = { topic, client, user: user ?? null, entered: push.push === "join" };
        for (const { filter, options } of [...this.#subscriptions]) {
          if (options.onPresence && matches(filter, topic)) call(options.onPresence, event);
        }
        return;
      }
      case "unsubscribed": {
        const subscription = this.#subscriptions.find(({ filter }) => filter === push.topic);
        return subscription && this.#ended(subscription, errorOf(push.error));
      }
      case "closing":
        this.#isFinal = push.reconnect === false;
    }
  }

  #published(message) {
    const recovery = this.#recovery;
    if (!recovery) {
      for (const subscription of [...this.#subscriptions]) {
        if (subscription.isLive && matches(subscription.filter, message.topic)) subscription.take(message);
      }
      return;
    }
    const { subscription } = recovery;
    if (--recovery.left === 0) this.#recovery = null;
    if (!this.#subscriptions.includes(subscription)) return; // Ended meanwhile.
    subscription.take(message);
    if (recovery.left === 0) subscription.position = recovery.position;
  }

  // What was dropped is in the history, if that reaches back far enough.
  #missed({ count, position }) {
    this.#emit("missed", count);
    for (const subscription of this.#subscriptions.filter((each) => each.isLive)) {
      if (position) subscription.position = position;
      this.#send({ unsubscribe: { topic: subscription.filter } }, COMMAND_TIMEOUT_MS, () => {});
      this.#resume(subscription);
    }
  }

  #become(state) {
    if (this.state === state) return;
    this.state = state;
    this.#emit("state", state);
  }

  #emit(name, value) {
    for (const listener of [...(this.#listeners.get(name) ?? [])]) call(listener, value);
  }
}

// An error of the user's function is told as an uncaught one, and keeps nobody else from being called.
function call(listener, value) {
  try {
    listener(value);
  } catch (error) {
    queueMicrotask(() => {
      throw error;
    });
  }
}

function release(socket) {
  if (!socket) return;
  socket.onopen = socket.onmessage = socket.onclose = null;
  try {
    socket.close(1000);
  } catch {
    // It is closed.
  }
}

function identity(token, name) {
  const identity = {};
  if (token) identity.token = token;
  if (name) identity.name = name;
  return identity;
}

// The time at which a JWT expires, in milliseconds; null for any other token.
function expiryOf(token) {
  try {
    const { exp } = JSON.parse(atob(token.split(".")[1].replaceAll("-", "+").replaceAll("_", "/")));
    return typeof exp === "number" ? 1000 * exp : null;
  } catch {
    return null;
  }
}

function decoded({ topic, data, text, base64, position, from, time }) {
  const message = { topic, position, from: from ?? null, time };
  if (base64 !== undefined) message.bytes = Uint8Array.from(atob(base64), (c) => c.charCodeAt(0));
  else if (text !== undefined) message.text = text;
  else message.data = data;
  return message;
}
