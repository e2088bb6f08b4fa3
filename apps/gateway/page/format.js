// Numbers as people read them.

/** 1234567 as "1.23 M". */
export function count(n) {
  if (n < 10_000) return n >= 100 || Number.isInteger(n) ? Math.round(n).toLocaleString("en") : n.toFixed(1);
  const units = ["k", "M", "G", "T"];
  let unit = -1;
  do {
    n /= 1000;
    unit++;
  } while (n >= 999.5 && unit < units.length - 1);
  return `${n.toPrecision(3)} ${units[unit]}`;
}

/** A number per second, with a digit after the point while it is small. */
export const rate = (n) => (n > 0 && n < 100 ? n.toFixed(1) : count(Math.round(n)));

/** Bytes with a binary unit. */
export function bytes(n) {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let unit = 0;
  while (n >= 1000 && unit < units.length - 1) {
    n /= 1024;
    unit++;
  }
  return `${n >= 100 || unit === 0 ? Math.round(n) : n.toPrecision(3)} ${units[unit]}`;
}

/** Microseconds with the unit that fits. */
export function micros(us) {
  if (us < 1) return us > 0 ? "< 1 µs" : "0";
  if (us < 1000) return `${Math.round(us)} µs`;
  if (us < 1_000_000) return `${(us / 1000).toPrecision(3)} ms`;
  return `${(us / 1_000_000).toPrecision(3)} s`;
}

/** Seconds as "2 d 3 h", "3 h 4 min", "4 min 5 s". */
export function duration(seconds) {
  const parts = [
    [Math.floor(seconds / 86400), "d"],
    [Math.floor(seconds / 3600) % 24, "h"],
    [Math.floor(seconds / 60) % 60, "min"],
    [Math.floor(seconds) % 60, "s"],
  ];
  const first = Math.min(parts.findIndex(([n]) => n > 0) >>> 0, 3);
  return parts.slice(first, first + 2).map(([n, unit]) => `${n} ${unit}`).join(" ");
}

/** A share as a percentage. */
export function percent(share) {
  return `${(100 * share).toFixed(share > 0 && share < 0.1 ? 1 : 0)} %`;
}
