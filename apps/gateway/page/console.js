// The console: subscribes and publishes over the client that any page would use.

import { $, make, setText } from "./dom.js";
import { prepareLog, writeMessage, writeNote } from "./log.js";
import { Waterwheel } from "/waterwheel.js";

// A position that no run of an engine has: everything that the history has follows.
const FROM_THE_START = "00000000-0";

// Filters whose history is asked for from the start, where a gap is no news.
const fromTheStart = new Set();

let gateway = null;
let getKey = () => null;

/** Prepares the console. The connection is made when it is first used. */
export function prepareConsole(key) {
  getKey = key;
  prepareLog();
  $("subscribe").addEventListener("submit", onSubscribe);
  $("publish").addEventListener("submit", onPublish);
  for (const id of ["topic", "message"]) $(id).addEventListener("input", showCurl);
  $("console").addEventListener("focusin", showCurl); // The key may have come since.
  showCurl();
}

/** Fills a topic in, as a click on it in the table does. */
export function chooseTopic(topic) {
  $("topic").value = topic;
  $("filter").value = topic;
  showCurl();
  $("console").scrollIntoView({ block: "start" });
  $("filter").focus({ preventScroll: true });
}

function connected() {
  if (gateway) return gateway;
  gateway = new Waterwheel({ token: () => getKey() });
  const tell = (state) => setText($("console-state"), {
    connecting: "Connecting…",
    open: `Connected as ${gateway.user ?? gateway.client}`,
    waiting: "Connection lost, trying again…",
    closed: "Closed",
  }[state]);
  tell(gateway.state);
  gateway.on("state", tell);
  gateway.on("error", (error) => writeNote(error.message, "w"));
  gateway.on("missed", (count) => writeNote(`${count || "Some"} messages were dropped: this page was too slow`, "w"));
  gateway.on("gap", ({ filter }) => fromTheStart.has(filter) || writeNote(`${filter}: some older messages are no longer in the history`, "w"));
  return gateway;
}

async function onSubscribe(event) {
  event.preventDefault();
  const filter = $("filter").value.trim();
  const options = $("replay").checked ? { since: FROM_THE_START } : {};
  const known = [...$("subscriptions").children].some((item) => item.dataset.filter === filter);
  if (known) return writeNote(`There is a subscription to ${filter} already`, "w");
  fromTheStart.add(filter);
  const subscription = connected().subscribe(filter, writeMessage, options);
  const item = make("li", filter);
  item.dataset.filter = filter;
  item.append(remover(item, subscription));
  $("subscriptions").append(item);
  subscription.ended.then(() => item.remove());
  try {
    const { recovered } = await subscription.ready;
    writeNote(`Subscribed to ${filter}${recovered ? `; ${recovered} from the history` : ""}`);
  } catch {
    // Told by the event "error".
  } finally {
    fromTheStart.delete(filter);
  }
}

function remover(item, subscription) {
  const button = make("button", "End");
  button.type = "button";
  button.setAttribute("aria-label", `End the subscription to ${subscription.filter}`);
  button.addEventListener("click", () => {
    subscription.unsubscribe();
    $("filter").focus();
  });
  return button;
}

async function onPublish(event) {
  event.preventDefault();
  const [topic, text] = [$("topic").value.trim(), $("message").value];
  const output = $("published");
  output.classList.remove("bad");
  setText(output, "…");
  try {
    const data = parsed(text);
    const position = await (data === undefined ? connected().publishText(topic, text) : connected().publish(topic, data));
    setText(output, `Published at ${position}`);
  } catch (error) {
    output.classList.add("bad");
    setText(output, error.message);
  }
}

function parsed(text) {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

function showCurl() {
  const text = $("message").value;
  const type = parsed(text) === undefined ? "text/plain" : "application/json";
  const quoted = `'${text.replaceAll("'", "'\\''")}'`;
  const topic = encodeURIComponent($("topic").value.trim() || "hello").replaceAll("'", "%27");
  const key = getKey() ? "  -H \"authorization: Bearer $KEY\" \\\n" : "";
  setText($("curl"), `curl -H 'content-type: ${type}' \\\n${key}  --data-binary ${quoted} \\\n  '${location.origin}/topics/${topic}'`);
}
