import { expect, it } from "vitest";
import { expiryOf, keyWord } from "./rules";

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
});
