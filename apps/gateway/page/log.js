// The list of messages in the console. It is written once per frame, whatever comes in between.

import { $, make } from "./dom.js";

const MAX_LINES = 200;

let waiting = [];
let skipped = 0;
let isPlanned = false;

/** Prepares the list. */
export function prepareLog() {
  $("clear").addEventListener("click", () => {
    $("messages").replaceChildren();
    $("messages-empty").hidden = false;
  });
}

/** Writes a message that was received. */
export function writeMessage(message) {
  add(() => {
    const { topic, data, text, bytes, from, time } = message;
    const content = data !== undefined ? JSON.stringify(data) : (text ?? `${bytes.length} bytes`);
    const at = new Date(time).toLocaleTimeString();
    return [make("span", `${at} `, "t"), make("span", topic, "n"), ` ${from ? `${from}: ` : ""}${content}`];
  });
}

/** Writes a note of the page: of the kind "w", a warning. */
export function writeNote(text, kind = "t") {
  add(() => [make("span", text, kind)]);
}

// Lines that would be pushed out again before anybody has seen them are not made at all.
function add(line) {
  waiting.push(line);
  if (waiting.length > MAX_LINES) {
    waiting.shift();
    skipped++;
  }
  if (isPlanned) return;
  isPlanned = true;
  // A page in the background has no frames.
  if (document.hidden) setTimeout(write, 1000);
  else requestAnimationFrame(write);
}

function write() {
  const lines = waiting;
  if (skipped > 0) lines.unshift(() => [make("span", `… ${skipped} more, too many to show`, "t")]);
  [waiting, skipped, isPlanned] = [[], 0, false];
  const list = $("messages");
  const follows = list.scrollTop + list.clientHeight >= list.scrollHeight - 4;
  list.append(...lines.map((line) => {
    const item = make("p");
    item.append(...line());
    return item;
  }));
  while (list.children.length > MAX_LINES) list.firstChild.remove();
  $("messages-empty").hidden = true;
  if (follows) list.scrollTop = list.scrollHeight;
}
