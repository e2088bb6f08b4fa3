// The two kinds of plots, drawn on canvases: a figure over time, and the stacked strip of a loop.

/** The seconds that a plot shows. */
export const SPAN = 120;

const FONT = "11px system-ui, sans-serif";

function prepare(canvas) {
  const ratio = globalThis.devicePixelRatio || 1;
  const { clientWidth: width, clientHeight: height } = canvas;
  const [w, h] = [Math.round(width * ratio), Math.round(height * ratio)];
  if (canvas.width !== w || canvas.height !== h) [canvas.width, canvas.height] = [w, h];
  const pen = canvas.getContext("2d");
  pen.setTransform(ratio, 0, 0, ratio, 0, 0);
  pen.clearRect(0, 0, width, height);
  pen.font = FONT;
  return { pen, width, height, ratio };
}

/** The least of 1, 2, 5, 10, 20, … that is not below `n`. */
function round125(n) {
  const power = 10 ** Math.floor(Math.log10(Math.max(n, 1)));
  return power * [1, 2, 5, 10].find((step) => step * power >= n);
}

function level(pen, y, from, to) {
  pen.beginPath();
  pen.moveTo(from, Math.round(y) + 0.5);
  pen.lineTo(to, Math.round(y) + 0.5);
  pen.stroke();
}

/** Draws a figure over the last two minutes, the newest value last. */
export function drawTrend(canvas, values, colors, label) {
  const { pen, width, height } = prepare(canvas);
  const max = round125(Math.max(5, ...values));
  pen.textBaseline = "middle";
  const left = pen.measureText(label(max)).width + 8;
  const [top, bottom, right] = [7, height - 18, width - 5];
  const y = (value) => bottom - (value / max) * (bottom - top);
  const x = (at) => right - ((values.length - 1 - at) / (SPAN - 1)) * (right - left);
  pen.strokeStyle = colors.line;
  pen.fillStyle = colors.quiet;
  for (const value of [0, max]) {
    level(pen, y(value), left, right);
    pen.textAlign = "right";
    pen.fillText(label(value), left - 7, y(value));
  }
  pen.textBaseline = "bottom";
  const times = [["−2 min", "left", left], ["now", "right", width]];
  if (right - left > 180) times.push(["−1 min", "center", (left + right) / 2]);
  for (const [text, align, at] of times) {
    pen.textAlign = align;
    pen.fillText(text, at, height);
  }
  if (values.length === 0) return;
  pen.beginPath();
  values.forEach((value, at) => pen.lineTo(x(at), y(value)));
  pen.strokeStyle = pen.fillStyle = colors.trend;
  pen.lineWidth = 2;
  pen.lineJoin = "round";
  pen.stroke();
  pen.lineTo(right, bottom);
  pen.lineTo(x(0), bottom);
  pen.globalAlpha = 0.13;
  pen.fill();
  pen.globalAlpha = 1;
  pen.beginPath();
  pen.arc(right, y(values.at(-1)), 3.5, 0, 2 * Math.PI);
  pen.fill();
}

/** Draws how a loop has spent each of the last seconds: tasks at the bottom, I/O on them, the rest was waiting. */
export function drawStrip(canvas, samples, colors) {
  const { pen, width, height, ratio } = prepare(canvas);
  pen.fillStyle = colors.wait;
  pen.fillRect(0, 0, width, height);
  const edge = (at) => Math.round((width - (samples.length - at) * (width / SPAN)) * ratio) / ratio;
  // What a loop has done shows, be it ever so little.
  const rise = (share) => (share > 0 ? Math.max(share * height, 0.75) : 0);
  samples.forEach(({ io, tasks }, at) => {
    const [from, to] = [edge(at), edge(at + 1)];
    const taskHeight = rise(tasks);
    pen.fillStyle = colors.tasks;
    pen.fillRect(from, height - taskHeight, to - from, taskHeight);
    pen.fillStyle = colors.io;
    pen.fillRect(from, height - taskHeight - rise(io), to - from, rise(io));
  });
  pen.strokeStyle = colors.edge;
  pen.setLineDash([2, 4]);
  level(pen, height / 2, 0, width - 34);
  pen.setLineDash([]);
  pen.fillStyle = colors.quiet;
  pen.textAlign = "right";
  pen.textBaseline = "middle";
  pen.fillText("50 %", width - 6, height / 2 + 0.5);
}

const NAMES = ["io", "tasks", "wait", "trend", "line", "edge", "quiet"];

/** Reads the colours of the theme: the variables hold functions of the scheme, which only the colour of an element resolves. */
export function themeColors() {
  const probe = document.body.appendChild(document.createElement("i"));
  const colors = NAMES.map((name) => {
    probe.style.color = `var(--${name})`;
    return [name, getComputedStyle(probe).color];
  });
  probe.remove();
  return Object.fromEntries(colors);
}
