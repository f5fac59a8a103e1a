// Numbers, sizes, times and values as people read them; an absent value is a dash.

export const NONE = "–";
const whole = new Intl.NumberFormat("en-US");
const short = new Intl.NumberFormat("en-US", { maximumFractionDigits: 2 });
const precise = new Intl.NumberFormat("en-US", { maximumFractionDigits: 6 });

export const count = (n: number | null | undefined): string => (n == null ? NONE : whole.format(Math.round(n)));

export function rate(n: number | null | undefined): string {
  if (n == null) return NONE;
  return n > 0 && n < 10 ? n.toFixed(1) : count(n);
}

export function bytes(n: number | null | undefined): string {
  if (n == null) return NONE;
  if (n < 1000) return `${whole.format(n)} B`;
  const units = ["kB", "MB", "GB", "TB"];
  let value = n / 1000;
  let unit = 0;
  while (value >= 1000 && unit < units.length - 1) {
    value /= 1000;
    unit += 1;
  }
  return `${value < 10 ? value.toFixed(2) : value < 100 ? value.toFixed(1) : Math.round(value)} ${units[unit]}`;
}

/** A length of time, with one unit, or two where one would be coarse. */
export function span(seconds: number | null | undefined): string {
  if (seconds == null) return NONE;
  const s = Math.max(0, seconds);
  if (s < 1) return `${Math.round(s * 1000)} ms`;
  if (s < 10) return `${s.toFixed(1)} s`;
  if (s < 120) return `${Math.round(s)} s`;
  if (s < 7200) return `${Math.round(s / 60)} min`;
  if (s < 172_800) return `${Math.round(s / 3600)} h`;
  if (s < 63_072_000) return `${whole.format(Math.round(s / 86_400))} days`;
  return `${whole.format(Math.round(s / 31_536_000))} years`;
}

/** Seconds since a time; null if it can't be read as one. */
export function age(at: string | null | undefined, now: number): number | null {
  const ms = at == null ? NaN : Date.parse(at);
  return Number.isNaN(ms) ? null : Math.max(0, (now - ms) / 1000);
}

export function ago(at: string | null | undefined, now: number): string {
  const seconds = age(at, now);
  if (seconds === null) return NONE;
  return seconds < 1 ? "now" : `${span(seconds)} ago`;
}

const pad = (n: number): string => String(n).padStart(2, "0");

/** A time in the browser's zone; the day only if it is not today. */
export function clock(at: string | null | undefined, now: number): string {
  const ms = at == null ? NaN : Date.parse(at);
  if (Number.isNaN(ms)) return at ?? NONE;
  const d = new Date(ms);
  const time = `${pad(d.getHours())}:${pad(d.getMinutes())}:${pad(d.getSeconds())}`;
  const day = `${d.getFullYear()}-${pad(d.getMonth() + 1)}-${pad(d.getDate())}`;
  return new Date(now).toDateString() === d.toDateString() ? time : `${day} ${time}`;
}

const NUMERIC = /^(tinyint|smallint|int|integer|bigint|long|short|byte|float|double|decimal)\b/;
export const isNumeric = (type: string): boolean => NUMERIC.test(type);
export const isTime = (type: string): boolean => /^(timestamp|date)/.test(type);

/** A value as a number; null if it is none. */
export function numeric(value: unknown): number | null {
  if (typeof value === "number") return value;
  if (typeof value !== "string" || value.trim() === "") return null;
  const found = Number(value);
  return Number.isFinite(found) ? found : null;
}

/** A value of a row as text. */
export function cell(value: unknown, type = ""): string {
  if (value === null || value === undefined) return "null";
  if (typeof value === "number") return (isNumeric(type) && type.startsWith("double") ? precise : precise).format(value);
  if (typeof value === "string" && isNumeric(type) && /^-?\d+$/.test(value)) return whole.format(BigInt(value));
  if (typeof value === "string") return isTime(type) ? value.replace("T", " ").replace(/\+00:00$|Z$/, "") : value;
  return JSON.stringify(value);
}

export const about = (n: number): string => short.format(n);
export const plural = (n: number, one: string, many = `${one}s`): string => `${count(n)} ${n === 1 ? one : many}`;
