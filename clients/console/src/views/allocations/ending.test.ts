import { expect, it } from "vitest";
import { endingOf } from "./ending";

const now = new Date("2026-11-01T00:00").getTime();

it("an allocation is protected, ends at a time to come, or neither", () => {
  expect(endingOf(true, "2026-12-01T00:00", now)).toEqual({ termination_protection: true, no_auto_release: true });
  expect(endingOf(false, "", now)).toEqual({ termination_protection: false, no_auto_release: true });
  expect(endingOf(false, "2026-12-01T00:00", now)?.auto_release_time).toBe(new Date("2026-12-01T00:00").toISOString());
  expect(endingOf(false, "2026-10-01T00:00", now)).toBeUndefined();
  expect(endingOf(false, "soon", now)).toBeUndefined();
});
