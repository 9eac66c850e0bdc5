import { expect, it } from "vitest";
import { expiryOf, keyWord, lifeOf, livesOf, rotatedEnd } from "./rules";

const now = Date.parse("2026-11-01T00:00:00Z");

it("a key is active until it expires or is disabled", () => {
  expect(keyWord({}, now)).toBe("active");
  expect(keyWord({ expire_time: "2026-11-02T00:00:00Z" }, now)).toBe("active");
  expect(keyWord({ expire_time: "2026-11-01T00:00:00Z" }, now)).toBe("expired");
  expect(keyWord({ expire_time: "2026-10-01T00:00:00Z", disable_time: "2026-10-02T00:00:00Z" }, now)).toBe("disabled");
});

it("the expiry of a new key is so many days from now, or never", () => {
  expect(expiryOf("30", now)).toBe("2026-12-01T00:00:00.000Z");
  expect(expiryOf("", now)).toBeUndefined();
  // a clock that is ahead must not ask for more than the organisation allows
  expect(expiryOf("30", now, 30)).toBe("2026-11-30T23:59:00.000Z");
});

it("keys are offered no longer lives than the organisation allows", () => {
  const days = (most: number) => livesOf(most).map(([value]) => value);
  expect(days(0)).toEqual(["30", "90", "365", ""]);
  expect(days(90)).toEqual(["30", "90"]);
  expect(days(7)).toEqual(["7"]);
  expect(livesOf(45)).toEqual([["30", "In 30 days"], ["45", "In 45 days"]]);
  expect(livesOf(1)).toEqual([["1", "In a day"]]);
  expect([lifeOf("90", livesOf(0)), lifeOf("90", livesOf(45)), lifeOf("", livesOf(0))]).toEqual(["90", "45", ""]);
});

it("a rotation asks for a sooner end where the life of the old key is not allowed any more", () => {
  const made = "2026-01-01T00:00:00Z";
  expect(rotatedEnd({ create_time: made }, 30, now)).toBe("2026-11-30T23:59:00.000Z");
  expect(rotatedEnd({ create_time: made, expire_time: "2026-03-01T00:00:00Z" }, 30, now)).toBe("2026-11-30T23:59:00.000Z");
  expect(rotatedEnd({ create_time: made, expire_time: "2026-01-31T00:00:00Z" }, 30, now)).toBeUndefined();
  expect(rotatedEnd({ create_time: made }, 0, now)).toBeUndefined();
});
