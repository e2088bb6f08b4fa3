// The page of a gateway: shows each snapshot of /api/live.

import { chooseTopic, prepareConsole } from "./console.js";
import { $, make, setText } from "./dom.js";
import { bytes, count, duration, micros } from "./format.js";
import { follow } from "./live.js";
import { drawLoops, showLoops } from "./loops.js";
import { themeColors } from "./plots.js";
import { showSlow, showTopics } from "./tables.js";
import { drawTrends, showTrends } from "./trends.js";

const KEY = "waterwheel-key";
const THEME = "waterwheel-theme";

let key = fromStorage(() => sessionStorage.getItem(KEY));

// A browser may forbid storage to a page, which then forgets.
function fromStorage(use) {
  try {
    return use();
  } catch {
    return null;
  }
}

// The stream.

follow({
  key,
  onSnapshot(snapshot) {
    document.body.classList.remove("starting", "lost");
    const { draining } = snapshot.gateway;
    status(draining ? "draining" : "live", draining ? "Draining: clients are sent away" : "Live");
    setText($("version"), `version ${snapshot.version}`);
    setText($("uptime"), `up ${duration(snapshot.uptime)}`);
    showTrends(snapshot.gateway);
    showTiles(snapshot);
    showLoops(snapshot);
    showTopics(snapshot, chooseTopic);
    showSlow(snapshot);
    draw();
  },
  onLost(reason) {
    document.body.classList.add("lost");
    status("lost", `Not connected: ${reason}`);
  },
  onKeyNeeded(refused) {
    document.body.classList.add("locked");
    status("lost", "A key is needed");
    setText($("key-error"), refused ? "The gateway does not accept this key." : "");
    $("key-form").hidden = false;
    $("key").focus();
    return new Promise((resolve) => {
      $("key-form").onsubmit = (event) => {
        event.preventDefault();
        key = $("key").value.trim();
        fromStorage(() => sessionStorage.setItem(KEY, key));
        $("key-form").hidden = true;
        document.body.classList.remove("locked");
        resolve(key);
      };
    });
  },
});

function status(kind, text) {
  $("status").dataset.status = kind;
  setText($("status-text"), text);
}

function showTiles({ gateway, engine, process, loops, topics }) {
  const sum = (field) => loops.reduce((sum, each) => sum + each[field], 0);
  const refused = Object.entries(gateway.refused);
  const refusals = refused.reduce((sum, [, n]) => sum + n, 0);
  const tiles = [
    ["Subscriptions", count(gateway.subscriptions), `to ${count(Math.max(engine.topics, topics.length))} topics`],
    ["Missed", count(gateway.missed), `recovered ${count(gateway.recovered)}, gaps told ${count(gateway.gaps)}`],
    ["Refused", count(refusals), refused.slice(0, 2).map(([name, n]) => `${name.replaceAll("_", " ")} ${count(n)}`).join(", ") || "no command"],
    ["Engine", engine.available ? engine.name : "away", engineDetail(engine)],
    ["Network", `${bytes(sum("bytesIn") + sum("bytesOut"))}/s`, `${bytes(sum("bytesIn"))} in, ${bytes(sum("bytesOut"))} out`],
    ["Memory", bytes(process.memory), "of this process"],
  ];
  const list = $("tiles");
  if (list.children.length === 0) {
    list.append(...tiles.map(([title]) => {
      const tile = make("div");
      const figure = make("dd");
      figure.append(make("b"), make("small"));
      tile.append(make("dt", title), figure);
      return tile;
    }));
  }
  tiles.forEach(([, figure, detail], at) => {
    const [number, small] = list.children[at].lastChild.children;
    setText(number, figure);
    setText(small, detail);
  });
}

/** The lag and the reconnects of an engine that has a server, and the sentence about its state. */
function engineDetail({ lag, reconnects, description, bytes: held }) {
  const parts = [description || `${bytes(held)} of history`];
  if (lag !== null || reconnects > 0) parts.unshift(`reconnects ${count(reconnects)}`);
  if (lag !== null) parts.unshift(`lag ${micros(lag)}`);
  return parts.join(", ");
}

// The theme, and drawing.

let colors = themeColors();

function draw() {
  if (document.hidden) return; // Drawn when it is looked at again.
  drawTrends(colors);
  drawLoops(colors);
}

let theme = fromStorage(() => localStorage.getItem(THEME)) ?? "auto";

function applyTheme() {
  $("theme").value = theme;
  document.documentElement.dataset.theme = theme;
  colors = themeColors();
  draw();
}

$("theme").addEventListener("change", () => {
  theme = $("theme").value;
  fromStorage(() => localStorage.setItem(THEME, theme));
  applyTheme();
});
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", applyTheme);
addEventListener("resize", draw);
document.addEventListener("visibilitychange", draw);
applyTheme();
prepareConsole(() => key);
