// The two kinds of plots, drawn on canvases: lines over time, and the stacked strip of a loop.

/** The seconds that a plot shows. */
export const SPAN = 120;

function prepare(canvas) {
  const ratio = globalThis.devicePixelRatio || 1;
  const { clientWidth: width, clientHeight: height } = canvas;
  const [w, h] = [Math.round(width * ratio), Math.round(height * ratio)];
  if (canvas.width !== w || canvas.height !== h) [canvas.width, canvas.height] = [w, h];
  const pen = canvas.getContext("2d");
  pen.setTransform(ratio, 0, 0, ratio, 0, 0);
  pen.clearRect(0, 0, width, height);
  return { pen, width, height };
}

/** The least of 1, 2, 5, 10, 20, … that is not below `n`. */
function round125(n) {
  const power = 10 ** Math.floor(Math.log10(Math.max(n, 1)));
  return power * [1, 2, 5, 10].find((step) => step * power >= n);
}

/** Draws lines over the last two minutes. `series`: [{ values, color }], the newest value last. */
export function drawLines(canvas, series, colors, label) {
  const { pen, width, height } = prepare(canvas);
  const [left, right, top, bottom] = [48, 8, 8, 22];
  const [w, h] = [width - left - right, height - top - bottom];
  const max = round125(Math.max(10, ...series.flatMap(({ values }) => values)));
  const y = (value) => top + h - (value / max) * h;
  const x = (age) => left + w - (age / (SPAN - 1)) * w;
  pen.font = "11px system-ui, sans-serif";
  pen.fillStyle = colors.quiet;
  pen.strokeStyle = colors.line;
  pen.lineWidth = 1;
  pen.textAlign = "right";
  pen.textBaseline = "middle";
  for (const part of [0, 0.5, 1]) {
    const at = Math.round(y(max * part)) + 0.5;
    pen.beginPath();
    pen.moveTo(left, at);
    pen.lineTo(left + w, at);
    pen.stroke();
    pen.fillText(label(max * part), left - 8, at);
  }
  pen.textBaseline = "top";
  for (const age of [0, 30, 60, 90]) {
    pen.textAlign = age === 0 ? "right" : "center";
    pen.fillText(age === 0 ? "now" : `−${age} s`, x(age), top + h + 7);
  }
  pen.lineWidth = 2;
  pen.lineJoin = "round";
  for (const { values, color } of series) {
    pen.strokeStyle = color;
    pen.beginPath();
    values.forEach((value, i) => pen[i === 0 ? "moveTo" : "lineTo"](x(values.length - 1 - i), y(value)));
    pen.stroke();
  }
}

/** Draws how a loop has spent each of the last seconds: tasks at the bottom, I/O on them, the rest was waiting. */
export function drawStrip(canvas, samples, colors) {
  const { pen, width, height } = prepare(canvas);
  pen.fillStyle = colors.wait;
  pen.fillRect(0, 0, width, height);
  const step = width / SPAN;
  samples.forEach(({ io, tasks }, i) => {
    const x = width - (samples.length - i) * step;
    const [ioHeight, taskHeight] = [io * height, tasks * height];
    pen.fillStyle = colors.tasks;
    pen.fillRect(x, height - taskHeight, step - 0.5, taskHeight);
    pen.fillStyle = colors.io;
    pen.fillRect(x, height - taskHeight - ioHeight, step - 0.5, ioHeight);
  });
}

/** Reads the colours of the theme. */
export function themeColors() {
  const style = getComputedStyle(document.documentElement);
  const of = (name) => style.getPropertyValue(`--${name}`).trim();
  return Object.fromEntries(["in", "out", "io", "tasks", "wait", "line", "quiet"].map((name) => [name, of(name)]));
}
