// The page of a gateway: shows each snapshot of /api/live.

import { chooseTopic, prepareConsole } from "./console.js";
import { bytes, count, duration, micros, percent } from "./format.js";
import { follow } from "./live.js";
import { SPAN, drawLines, drawStrip, themeColors } from "./plots.js";

const $ = (id) => document.getElementById(id);
const KEY = "waterwheel-key";
const THEME = "waterwheel-theme";

const traffic = { in: [], out: [] };
const cards = new Map();
let colors = themeColors();
let key = sessionStorage.getItem(KEY);

// The stream.

follow({
  key,
  onSnapshot(snapshot) {
    document.body.classList.remove("lost");
    const { draining } = snapshot.gateway;
    status(draining ? "draining" : "live", draining ? "Draining: clients are sent away" : "Live");
    show(snapshot);
  },
  onLost(reason) {
    document.body.classList.add("lost");
    status("lost", `Not connected: ${reason}`);
  },
  onKeyNeeded(refused) {
    status("lost", "A key is needed");
    $("key-error").textContent = refused ? "The gateway does not accept this key." : "";
    $("key-form").hidden = false;
    $("key").focus();
    return new Promise((resolve) => {
      $("key-form").onsubmit = (event) => {
        event.preventDefault();
        key = $("key").value.trim();
        sessionStorage.setItem(KEY, key);
        $("key-form").hidden = true;
        resolve(key);
      };
    });
  },
});

function status(kind, text) {
  $("status").dataset.status = kind;
  if ($("status-text").textContent !== text) $("status-text").textContent = text; // Read aloud when it changes only.
}

// A snapshot.

function show(snapshot) {
  const { gateway, loops } = snapshot;
  $("version").textContent = `version ${snapshot.version}`;
  $("uptime").textContent = `up ${duration(snapshot.uptime)}`;
  showTiles(snapshot);
  push(traffic.in, gateway.publishedRate);
  push(traffic.out, gateway.deliveredRate);
  const names = new Set(loops.map(({ name }) => name));
  for (const [name, card] of cards) {
    if (!names.has(name)) card.element.remove(), cards.delete(name);
  }
  for (const each of loops) showLoop(each);
  showTopics(snapshot);
  showSlow(snapshot);
  draw();
}

function push(values, value) {
  values.push(value);
  if (values.length > SPAN) values.shift();
}

function showTiles({ gateway, engine, process, loops }) {
  const clients = gateway.clients;
  const total = clients.websocket + clients.events + clients.lines;
  const sum = (field) => loops.reduce((sum, each) => sum + each[field], 0);
  const refused = Object.entries(gateway.refused).filter(([, n]) => n > 0);
  const refusals = refused.reduce((sum, [, n]) => sum + n, 0);
  const tiles = [
    ["Clients", count(total), `${clients.websocket} WebSocket · ${clients.events} events · ${clients.lines} lines`],
    ["Published", `${count(gateway.publishedRate)}/s`, `${count(gateway.published)} in all`],
    ["Delivered", `${count(gateway.deliveredRate)}/s`, `${count(gateway.delivered)} in all`],
    ["Missed", count(gateway.missed), "dropped for slow clients"],
    ["Refused", count(refusals), refused.slice(0, 2).map(([name, n]) => `${name} ${count(n)}`).join(" · ") || "no command"],
    ["Topics", count(engine.topics), `${count(gateway.subscriptions)} subscriptions`],
    ["Engine", engine.available ? engine.name : "away", engine.description || `${bytes(engine.bytes)} of history`],
    ["Traffic", `${bytes(sum("bytesIn") + sum("bytesOut"))}/s`, `${bytes(process.memory)} of memory`],
  ];
  const list = $("tiles");
  if (list.children.length !== tiles.length) {
    list.replaceChildren(...tiles.map(([title]) => {
      const tile = document.createElement("div");
      tile.append(make("dt", title), make("dd"));
      tile.lastChild.append(make("b"), make("small"));
      return tile;
    }));
  }
  tiles.forEach(([, value, detail], i) => {
    const [number, small] = list.children[i].lastChild.children;
    number.textContent = value;
    small.textContent = detail;
  });
}

function showLoop(each) {
  let card = cards.get(each.name);
  if (!card) {
    const element = $("loop-card").content.firstElementChild.cloneNode(true);
    element.querySelector("h3").textContent = each.name;
    const fields = Object.fromEntries([...element.querySelectorAll("[data-of]")].map((e) => [e.dataset.of, e]));
    card = { element, fields, canvas: element.querySelector("canvas"), samples: [], spin: spinner(element) };
    cards.set(each.name, card);
    $("loops").append(element);
  }
  push(card.samples, { io: each.io, tasks: each.tasks });
  // A revolution in 10 seconds at 10 turns per second, in one at 100,000: the wheel follows the loop, within what an eye can see.
  const speed = each.turns > 0 ? 0.05 + 0.2 * Math.log10(1 + each.turns) : 0;
  card.spin?.updatePlaybackRate(speed);
  const texts = {
    turns: count(each.turns),
    channels: count(each.channels),
    busy: percent(each.io + each.tasks),
    p50: micros(each.lag.p50),
    p99: micros(each.lag.p99),
    max: micros(each.lag.max),
    queue: count(each.queue),
    timers: count(each.timers),
    byIo: `${count(each.byIo)}/s`,
    byTask: `${count(each.byTask)}/s`,
    byTimer: `${count(each.byTimer)}/s`,
    in: `${bytes(each.bytesIn)}/s`,
    out: `${bytes(each.bytesOut)}/s`,
    running: each.running ? `${each.running.what} has held this loop for ${micros(each.running.micros)}` : "",
  };
  for (const [name, text] of Object.entries(texts)) card.fields[name].textContent = text;
  const shares = `${percent(each.wait)} waiting, ${percent(each.io)} I/O, ${percent(each.tasks)} tasks`;
  card.canvas.setAttribute("aria-label", `${each.name}, the last second: ${shares}`);
}

function spinner(element) {
  if (matchMedia("(prefers-reduced-motion: reduce)").matches) return null;
  const frames = [{ transform: "rotate(0)" }, { transform: "rotate(360deg)" }];
  return element.querySelector(".spin").animate(frames, { duration: 1000, iterations: Infinity });
}

function showTopics({ topics, moreTopics }) {
  $("topics-empty").hidden = topics.length > 0;
  $("topics-more").textContent = moreTopics ? `the first ${topics.length}` : "";
  rows($("topics").tBodies[0], topics, ({ topic, subscribers, rate, published, history }) => [
    topic, count(subscribers), rate.toFixed(1), count(published), count(history),
  ], (cell, text) => {
    const button = cell.firstChild ?? cell.appendChild(make("button"));
    button.type = "button";
    button.textContent = text;
    button.onclick = () => chooseTopic(button.textContent);
  });
}

function showSlow({ slow, slowLimit }) {
  $("slow-empty").hidden = slow.length > 0;
  $("slow-limit").textContent = slowLimit ? `longer than ${micros(slowLimit)}` : "the watchdog is off";
  rows($("slow").tBodies[0], slow, ({ ago, loop, what, micros: held }) => [
    ago < 1 ? "now" : `${duration(ago)} ago`, loop, what, micros(held),
  ]);
}

// Cells are reused, so that focus and selection stay where they are.
function rows(body, items, cellsOf, first) {
  while (body.rows.length > items.length) body.deleteRow(-1);
  items.forEach((item, at) => {
    const texts = cellsOf(item);
    const row = body.rows[at] ?? body.insertRow();
    texts.forEach((text, i) => {
      const cell = row.cells[i] ?? row.insertCell();
      if (i === 0 && first) first(cell, text);
      else if (cell.textContent !== text) cell.textContent = text;
      cell.classList.toggle("name", i === 0 || (!first && i === 2));
    });
  });
}

function make(name, text = "") {
  const element = document.createElement(name);
  element.textContent = text;
  return element;
}

function draw() {
  const [published, delivered] = [traffic.in.at(-1) ?? 0, traffic.out.at(-1) ?? 0];
  $("traffic").setAttribute("aria-label",
    `Messages per second, the last two minutes; now ${count(published)} published, ${count(delivered)} delivered`);
  drawLines($("traffic"), [
    { values: traffic.out, color: colors.out },
    { values: traffic.in, color: colors.in },
  ], colors, count);
  for (const { canvas, samples } of cards.values()) drawStrip(canvas, samples, colors);
}

// The theme.

const system = matchMedia("(prefers-color-scheme: dark)");

function applyTheme() {
  const chosen = localStorage.getItem(THEME) ?? "auto";
  $("theme").value = chosen;
  document.documentElement.dataset.theme = chosen === "auto" ? (system.matches ? "dark" : "light") : chosen;
  colors = themeColors();
  draw();
}

$("theme").addEventListener("change", () => {
  localStorage.setItem(THEME, $("theme").value);
  applyTheme();
});
system.addEventListener("change", applyTheme);
addEventListener("resize", draw);
applyTheme();
prepareConsole(() => key);
