/** Times in the reader's own zone and language. */
import { plural } from "./text";

const full = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "medium" });
const short = new Intl.DateTimeFormat(undefined, { month: "short", day: "numeric", hour: "2-digit", minute: "2-digit", second: "2-digit" });
const clock = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit", second: "2-digit" });
const day = new Intl.DateTimeFormat(undefined, { month: "short", day: "numeric" });
const hour = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit" });
const minute = new Intl.DateTimeFormat(undefined, { month: "short", day: "numeric", hour: "2-digit", minute: "2-digit" });
const planned = new Intl.DateTimeFormat(undefined, { weekday: "short", year: "numeric", month: "short", day: "numeric", hour: "2-digit", minute: "2-digit", timeZoneName: "short" });
const plannedShort = new Intl.DateTimeFormat(undefined, { month: "short", day: "numeric", hour: "2-digit", minute: "2-digit", timeZoneName: "short" });
const plannedYear = new Intl.DateTimeFormat(undefined, { year: "numeric", month: "short", day: "numeric", hour: "2-digit", minute: "2-digit", timeZoneName: "short" });
const relative = new Intl.RelativeTimeFormat(undefined, { numeric: "always", style: "long" });

export const zone = Intl.DateTimeFormat().resolvedOptions().timeZone;

/** With the zone, so that it stands on its own. */
export function fullTime(time: string): string {
  return `${full.format(new Date(time))} (${zone})`;
}

/** Without the year. */
export function shortTime(time: string): string {
  return short.format(new Date(time));
}

function isOfYear(time: string, now: number): boolean {
  return new Date(time).getFullYear() === new Date(now).getFullYear();
}

export function clockTime(time: string): string {
  return clock.format(new Date(time));
}

/** Of a chart's axis: the day, the time of day, both. */
export const dayText = (milliseconds: number): string => day.format(milliseconds);
export const hourText = (milliseconds: number): string => hour.format(milliseconds);
export const minuteText = (milliseconds: number): string => minute.format(milliseconds);

/** Of something planned: with the day of the week, the year and the zone, without seconds. */
export function plannedTime(time: string): string {
  return planned.format(new Date(time));
}

/** The same without the day of the week, and in the year that goes on without the year. */
export function plannedShortTime(time: string, now: number): string {
  return (isOfYear(time, now) ? plannedShort : plannedYear).format(new Date(time));
}

/** A time as a field for date and time has it: in the reader's zone, to the minute. */
export function toField(milliseconds: number): string {
  const date = new Date(milliseconds);
  const two = (part: number) => String(part).padStart(2, "0");
  return `${String(date.getFullYear()).padStart(4, "0")}-${two(date.getMonth() + 1)}-${two(date.getDate())}T${two(date.getHours())}:${two(date.getMinutes())}`;
}

/** The time that such a field says; nothing when it says none. */
export function fromField(text: string): number | undefined {
  const time = text === "" ? Number.NaN : new Date(text).getTime();
  return Number.isNaN(time) ? undefined : time;
}

const STEPS: [Intl.RelativeTimeFormatUnit, number][] = [
  ["day", 86_400],
  ["hour", 3600],
  ["minute", 60],
];

/** How much a text may say too much, and too little, of what there is. */
const TOO_MUCH = 1.05;
const TOO_LITTLE = 0.75;

/** Whole units of about `seconds`: rounded up where it is almost so, and nothing where a smaller unit has to say it. */
function wholeOf(seconds: number, size: number): number | undefined {
  const up = Math.ceil(seconds / size);
  if (up * size <= seconds * TOO_MUCH) return up;
  const down = up - 1;
  return down * size >= seconds * TOO_LITTLE ? down : undefined;
}

/**
 * "5 minutes ago", "in 2 hours"; 7 h 59 min are 8 hours, and 1 h 30 min 90 minutes, neither 1 hour nor 2. Everything below
 * a minute is "just now" or "in a moment".
 */
export function relativeTime(time: string, now: number): string {
  const seconds = Math.round((Date.parse(time) - now) / 1000);
  const away = Math.abs(seconds);
  if (away < 60) return seconds > 5 ? "in a moment" : "just now";
  for (const [unit, size] of STEPS) {
    const whole = wholeOf(away, size) ?? (unit === "minute" ? Math.floor(away / size) : undefined);
    if (whole) return relative.format(Math.sign(seconds) * whole, unit);
  }
  return "just now";
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

/** A planned length to the minute: "1 day", "2 days 3 hours", "8 hours", "1 hour 30 minutes". */
export function span(milliseconds: number): string {
  const minutes = Math.max(0, Math.round(milliseconds / 60_000));
  const parts: [number, string][] = [
    [Math.floor(minutes / 1440), "day"],
    [Math.floor(minutes / 60) % 24, "hour"],
    [minutes % 60, "minute"],
  ];
  const shown = parts.filter(([count]) => count > 0).map(([count, unit]) => plural(count, unit));
  return shown.slice(0, 2).join(" ") || "0 minutes";
}

export function between(start: string, end: string | undefined, now: number): string {
  return duration((end ? Date.parse(end) : now) - Date.parse(start));
}
