import { describe, expect, it } from "vitest";
import { duration, relativeTime } from "./time";

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
  ])("%d s reads %s", (seconds, text) => {
    const now = Date.parse("2026-11-20T12:00:00Z");
    expect(relativeTime(new Date(now + seconds * 1000).toISOString(), now)).toBe(text);
  });
});
