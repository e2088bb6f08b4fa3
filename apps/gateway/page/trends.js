// The figures of traffic, each with a plot of its own: deliveries may be a thousand times the publications.

import { $, copyOf, make, setText } from "./dom.js";
import { count } from "./format.js";
import { SPAN, drawTrend } from "./plots.js";

const TRENDS = [
  {
    title: "Clients",
    unit: "",
    read: ({ clients }) => Object.values(clients).reduce((sum, n) => sum + n, 0),
    describe: ({ clients }) => `${count(clients.websocket)} WebSocket · ${count(clients.events)} events · ${count(clients.lines)} lines`,
  },
  {
    title: "Messages in",
    unit: " /s",
    read: ({ publishedRate }) => publishedRate,
    describe: ({ published }) => `${count(published)} published so far`,
  },
  {
    title: "Messages out",
    unit: " /s",
    read: ({ deliveredRate }) => deliveredRate,
    describe: ({ delivered }) => `${count(delivered)} delivered so far`,
  },
];

const cards = TRENDS.map((trend) => {
  const element = copyOf("trend-card");
  const [title, number, detail, canvas] = element.children;
  title.textContent = trend.title;
  number.append("–", make("small", trend.unit));
  $("trends").append(element);
  return { ...trend, number: number.firstChild, detail, canvas, values: [] };
});

/** Adds the figures of a snapshot. */
export function showTrends(gateway) {
  for (const { title, unit, read, describe, number, detail, canvas, values } of cards) {
    const value = read(gateway);
    values.push(value);
    if (values.length > SPAN) values.shift();
    setText(number, count(value));
    setText(detail, describe(gateway));
    canvas.setAttribute("aria-label", `${title}, the last two minutes; now ${count(value)}${unit}`);
  }
}

/** Draws the plots. */
export function drawTrends(colors) {
  for (const { canvas, values } of cards) drawTrend(canvas, values, colors, count);
}
