// The console: subscribes and publishes over the client that any page would use.

import { Waterwheel } from "/waterwheel.js";

const MAX_MESSAGES = 200;
const $ = (id) => document.getElementById(id);

let gateway = null;
let getKey = () => null;

/** Prepares the console. The connection is made when it is first used. */
export function prepareConsole(key) {
  getKey = key;
  $("subscribe").addEventListener("submit", onSubscribe);
  $("publish").addEventListener("submit", onPublish);
  $("clear").addEventListener("click", () => $("messages").replaceChildren());
  for (const id of ["topic", "message"]) $(id).addEventListener("input", showCurl);
  showCurl();
}

/** Fills a topic in, as a click on it in the table does. */
export function chooseTopic(topic) {
  $("topic").value = topic;
  $("filter").value = topic;
  showCurl();
  $("console").focus();
}

function connected() {
  if (gateway) return gateway;
  gateway = new Waterwheel({ token: () => getKey() });
  const state = $("console-state");
  gateway.on("state", (now) => {
    state.textContent = { connecting: "Connecting…", open: `Connected as ${gateway.client}`, waiting: "Reconnecting…", closed: "Closed" }[now];
  });
  gateway.on("open", () => (state.textContent = `Connected as ${gateway.user ?? gateway.client}`));
  gateway.on("error", (error) => note(error.message, "w"));
  gateway.on("missed", (count) => note(`${count} messages were dropped: this page was too slow`, "w"));
  return gateway;
}

async function onSubscribe(event) {
  event.preventDefault();
  const filter = $("filter").value.trim();
  const item = document.createElement("li");
  const options = { onGap: () => note(`${filter}: older messages are no longer in the history`, "w") };
  try {
    // A position that no run of an engine has: everything that the history has follows.
    if ($("replay").checked) options.since = "00000000-0";
    const known = new Set([...$("subscriptions").children].map((each) => each.dataset.filter));
    if (known.has(filter)) return note(`there is a subscription to ${filter} already`, "w");
    if (options.since) delete options.onGap; // Always told for that position.
    const subscription = connected().subscribe(filter, show, options);
    item.dataset.filter = filter;
    item.append(filter, remover(item, subscription));
    $("subscriptions").append(item);
    const { recovered } = await subscription.ready;
    note(`subscribed to ${filter}${recovered ? `, ${recovered} from the history` : ""}`);
  } catch (error) {
    item.remove(); // The error was told by the event.
  }
}

function remover(item, subscription) {
  const button = document.createElement("button");
  button.type = "button";
  button.textContent = "end";
  button.setAttribute("aria-label", `End the subscription to ${subscription.filter}`);
  button.addEventListener("click", () => {
    subscription.unsubscribe();
    item.remove();
    $("filter").focus();
  });
  return button;
}

async function onPublish(event) {
  event.preventDefault();
  const [topic, text] = [$("topic").value.trim(), $("message").value];
  const output = $("published");
  output.textContent = "…";
  try {
    const data = parsed(text);
    const position = await (data === undefined ? connected().publishText(topic, text) : connected().publish(topic, data));
    output.textContent = `Published at ${position}`;
  } catch (error) {
    output.textContent = error.message;
  }
}

function parsed(text) {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

function show({ topic, data, text, bytes, from, time }) {
  const content = data !== undefined ? JSON.stringify(data) : (text ?? `${bytes.length} bytes`);
  const at = document.createElement("span");
  at.className = "t";
  at.textContent = `${new Date(time).toLocaleTimeString()} `;
  const name = document.createElement("span");
  name.className = "n";
  name.textContent = topic;
  line(at, name, ` ${from ? `${from}: ` : ""}${content}`);
}

function note(text, kind = "t") {
  const item = document.createElement("span");
  item.className = kind;
  item.textContent = text;
  line(item);
}

function line(...parts) {
  const list = $("messages");
  const item = document.createElement("p");
  item.append(...parts);
  const follows = list.scrollTop + list.clientHeight >= list.scrollHeight - 4;
  list.append(item);
  while (list.children.length > MAX_MESSAGES) list.firstChild.remove();
  if (follows) list.scrollTop = list.scrollHeight;
}

function showCurl() {
  const text = $("message").value;
  const type = parsed(text) === undefined ? "text/plain" : "application/json";
  const quoted = `'${text.replaceAll("'", "'\\''")}'`;
  const topic = encodeURIComponent($("topic").value.trim() || "hello");
  $("curl").textContent = `curl -H 'content-type: ${type}' -d ${quoted} ${location.origin}/topics/${topic}`;
}
