// The cards of the event loops.

import { $, copyOf, setText } from "./dom.js";
import { bytes, count, micros, percent } from "./format.js";
import { SPAN, drawStrip } from "./plots.js";

const cards = new Map();

/** Shows the loops of a snapshot, and the work that holds one of them right now. */
export function showLoops({ loops, slow }) {
  const names = new Set(loops.map(({ name }) => name));
  for (const [name, card] of cards) {
    if (!names.has(name)) card.element.remove(), cards.delete(name);
  }
  for (const each of loops) {
    const card = cards.get(each.name) ?? addCard(each.name);
    card.samples.push({ io: each.io, tasks: each.tasks });
    if (card.samples.length > SPAN) card.samples.shift();
    // A revolution in ten seconds at ten turns per second, in one at 100,000: as fast as an eye can follow.
    card.spin?.updatePlaybackRate(each.turns > 0 ? 0.05 + 0.2 * Math.log10(1 + each.turns) : 0);
    const running = slow.find((work) => work.loop === each.name && !work.isOver);
    const texts = textsOf(each);
    texts.running = running ? `${running.what} has held this loop for ${micros(running.micros)}` : "";
    for (const [name, text] of Object.entries(texts)) setText(card.fields[name], text);
    const shares = `${percent(each.wait)} waiting, ${percent(each.io)} I/O, ${percent(each.tasks)} tasks`;
    card.canvas.setAttribute("aria-label", `How ${each.name} has spent the last two minutes; the last second: ${shares}`);
  }
}

/** Draws the strips. */
export function drawLoops(colors) {
  for (const { canvas, samples } of cards.values()) drawStrip(canvas, samples, colors);
}

function addCard(name) {
  const element = copyOf("loop-card");
  element.querySelector("h3").textContent = name;
  const fields = Object.fromEntries([...element.querySelectorAll("[data-of]")].map((e) => [e.dataset.of, e]));
  const card = { element, fields, canvas: element.querySelector("canvas"), samples: [], spin: spinner(element) };
  cards.set(name, card);
  $("loops").append(element);
  return card;
}

function textsOf(loop) {
  return {
    channels: loop.channels === 1 ? "1 channel" : `${count(loop.channels)} channels`,
    turns: count(loop.turns),
    busy: percent(loop.io + loop.tasks),
    p50: micros(loop.lag.p50),
    p99: micros(loop.lag.p99),
    max: micros(loop.lag.max),
    byIo: count(loop.byIo),
    byTask: count(loop.byTask),
    byTimer: count(loop.byTimer),
    queue: count(loop.queue),
    timers: count(loop.timers),
    in: bytes(loop.bytesIn),
    out: bytes(loop.bytesOut),
  };
}

function spinner(element) {
  if (matchMedia("(prefers-reduced-motion: reduce)").matches) return null;
  const frames = [{ transform: "rotate(0)" }, { transform: "rotate(360deg)" }];
  return element.querySelector(".spin").animate(frames, { duration: 1000, iterations: Infinity });
}
