/** Numbers, sizes and times for people. Pure: the time of day is an argument. */

const UNITS = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];

export function bytes(count: number): string {
  let unit = 0;
  let value = count;
  while (value >= 1024 && unit < UNITS.length - 1) {
    value /= 1024;
    unit += 1;
  }
  const digits = unit === 0 || value >= 100 ? 0 : 1;
  return `${value.toFixed(digits)} ${UNITS[unit]}`;
}

/** A count with thin spaces between groups of three digits. */
export function count(value: number): string {
  return Math.round(value)
    .toString()
    .replace(/\B(?=(\d{3})+(?!\d))/g, "\u2009");
}

/** A count in little room: `1.2k`. */
export function shortCount(value: number): string {
  if (value < 1000) return String(Math.round(value * 10) / 10);
  const steps = ["", "k", "M", "G", "T"];
  const power = Math.min(steps.length - 1, Math.floor(Math.log10(value) / 3));
  const scaled = value / 1000 ** power;
  return `${scaled >= 100 ? scaled.toFixed(0) : scaled.toFixed(1)}${steps[power]}`;
}

/** A duration by its largest two units. */
export function duration(ms: number): string {
  if (ms < 1) return `${Math.round(ms * 1000)} µs`;
  if (ms < 1000) return `${Math.round(ms)} ms`;
  if (ms < 10_000) return `${(ms / 1000).toFixed(1)} s`;
  const seconds = Math.floor(ms / 1000);
  const parts: [number, string][] = [
    [Math.floor(seconds / 86_400), "d"],
    [Math.floor(seconds / 3600) % 24, "h"],
    [Math.floor(seconds / 60) % 60, "min"],
    [seconds % 60, "s"],
  ];
  const first = parts.findIndex(([value]) => value > 0);
  return parts
    .slice(first, first + 2)
    .filter(([value]) => value > 0)
    .map(([value, unit]) => `${value} ${unit}`)
    .join(" ");
}

export function micros(value: number): string {
  return value < 1000 ? `${Math.round(value)} µs` : duration(value / 1000);
}

/** How long ago, roughly. */
export function ago(atMs: number, nowMs: number): string {
  const past = nowMs - atMs;
  return past < 1500 ? "now" : `${duration(past)} ago`;
}

/** The time of day, with milliseconds if wanted. */
export function clock(atMs: number, withMillis = false): string {
  const date = new Date(atMs);
  const pad = (value: number, width = 2) => String(value).padStart(width, "0");
  const time = `${pad(date.getHours())}:${pad(date.getMinutes())}:${pad(date.getSeconds())}`;
  return withMillis ? `${time}.${pad(date.getMilliseconds(), 3)}` : time;
}

export function dateTime(atMs: number, withMillis = false): string {
  const date = new Date(atMs);
  const pad = (value: number) => String(value).padStart(2, "0");
  return `${date.getFullYear()}-${pad(date.getMonth() + 1)}-${pad(date.getDate())} ${clock(atMs, withMillis)}`;
}

/** The milliseconds of a version (`carillon-timestamp`): a hybrid time has 16 bits of count below. */
export function versionMs(version: string): number | null {
  return /^\d+$/.test(version) ? Number(BigInt(version) >> 16n) : null;
}

/** `1 shard`, `2 shards`. */
export function plural(value: number, noun: string, many = `${noun}s`): string {
  return `${count(value)} ${value === 1 ? noun : many}`;
}

export function percent(part: number, whole: number): string {
  return whole <= 0 ? "–" : `${((100 * part) / whole).toFixed(part / whole < 0.1 ? 1 : 0)} %`;
}
