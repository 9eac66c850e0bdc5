import { describe, expect, it } from "vitest";
import { duration, fromField, fullTime, plannedShortTime, plannedTime, relativeTime, span, toField, zone } from "./time";

describe("time", () => {
  it.each([
    [-5, "0 ms"],
    [640, "640 ms"],
    [1417, "1.4 s"],
    [12_400, "12 s"],
    [200_000, "3 m 20 s"],
    [18_720_000, "5 h 12 m"],
    [187_200_000, "2 d 4 h"],
  ])("%d ms reads %s", (ms, text) => {
    expect(duration(ms)).toBe(text);
  });

  it.each([
    [-2, "just now"],
    [30, "in a moment"],
    [-59, "just now"],
    [-300, "5 minutes ago"],
    [7200, "in 2 hours"],
    // an 8-hour reservation, right after its start
    [28_799, "in 8 hours"],
    [28_790, "in 8 hours"],
    [26_100, "in 7 hours"],
    [3580, "in 1 hour"],
    [3300, "in 55 minutes"],
    [5400, "in 90 minutes"],
    [4200, "in 1 hour"],
    [7100, "in 2 hours"],
    [119, "in 2 minutes"],
    [90, "in 1 minute"],
    [-3580, "1 hour ago"],
    [-86_390, "1 day ago"],
    [129_600, "in 36 hours"],
    [259_000, "in 3 days"],
  ])("%d s reads %s", (seconds, text) => {
    const now = Date.parse("2026-11-20T12:00:00Z");
    expect(relativeTime(new Date(now + seconds * 1000).toISOString(), now)).toBe(text);
  });
});

it("a field for date and time keeps the minute, in the reader's zone", () => {
  const noon = new Date(2026, 0, 31, 12, 5).getTime();
  expect(toField(noon)).toBe("2026-01-31T12:05");
  expect(fromField(toField(noon))).toBe(noon);
  expect(fromField("")).toBeUndefined();
  expect(fromField("soon")).toBeUndefined();
});

it.each([
  [86_399_000, "1 day"],
  [97_200_000, "1 day 3 hours"],
  [5_400_000, "1 hour 30 minutes"],
  [604_800_000, "7 days"],
  [-1, "0 minutes"],
])("a window of %d ms is %s long", (ms, text) => {
  expect(span(ms)).toBe(text);
});

it("a date that is shown says its zone", () => {
  const time = "2026-07-01T12:05:00Z";
  const short = new Intl.DateTimeFormat(undefined, { timeZoneName: "short" }).formatToParts(new Date(time)).find(({ type }) => type === "timeZoneName")?.value;
  expect(fullTime(time)).toMatch(new RegExp(`2026.*\\(${zone}\\)$`));
  expect(plannedShortTime(time, Date.parse("2026-06-01T00:00:00Z"))).not.toContain("2026");
  // a key that expires in a year does not seem to expire today
  expect(plannedShortTime(time, Date.parse("2025-06-01T00:00:00Z"))).toContain("2026");
  for (const text of [plannedTime(time), plannedShortTime(time, Date.parse("2026-01-02T00:00:00Z"))]) expect(text.endsWith(` ${short}`)).toBe(true);
});
