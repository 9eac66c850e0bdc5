/** Times in the reader's own zone and language. */

const full = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "medium" });
const short = new Intl.DateTimeFormat(undefined, { month: "short", day: "numeric", hour: "2-digit", minute: "2-digit", second: "2-digit" });
const clock = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit", second: "2-digit" });
const relative = new Intl.RelativeTimeFormat(undefined, { numeric: "auto", style: "long" });

export const zone = Intl.DateTimeFormat().resolvedOptions().timeZone;

export function fullTime(time: string): string {
  return full.format(new Date(time));
}

/** Without the year. */
export function shortTime(time: string): string {
  return short.format(new Date(time));
}

export function clockTime(time: string): string {
  return clock.format(new Date(time));
}

const STEPS: [Intl.RelativeTimeFormatUnit, number][] = [
  ["day", 86_400],
  ["hour", 3600],
  ["minute", 60],
];

/** "5 minutes ago", "in 2 hours"; everything below a minute is "just now" or "in a moment". */
export function relativeTime(time: string, now: number): string {
  const seconds = Math.round((Date.parse(time) - now) / 1000);
  for (const [unit, size] of STEPS) {
    if (Math.abs(seconds) >= size) return relative.format(Math.trunc(seconds / size), unit);
  }
  return seconds > 5 ? "in a moment" : "just now";
}

/** "1.4 s", "12 s", "3 m 20 s", "5 h 12 m", "2 d 4 h". */
export function duration(milliseconds: number): string {
  const ms = Math.max(0, milliseconds);
  if (ms < 1000) return `${Math.round(ms)} ms`;
  if (ms < 10_000) return `${(ms / 1000).toFixed(1)} s`;
  const seconds = Math.floor(ms / 1000);
  const [d, h, m, s] = [Math.floor(seconds / 86_400), Math.floor(seconds / 3600) % 24, Math.floor(seconds / 60) % 60, seconds % 60];
  if (d) return `${d} d ${h} h`;
  if (h) return `${h} h ${m} m`;
  if (m) return `${m} m ${s} s`;
  return `${s} s`;
}

export function between(start: string, end: string | undefined, now: number): string {
  return duration((end ? Date.parse(end) : now) - Date.parse(start));
}
