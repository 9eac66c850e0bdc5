import { expect, it } from "vitest";
import { drainPercent } from "./placement";

it("a drain progresses with the slots that have no claim", () => {
  expect(drainPercent({ live_claims: 3 }, 4)).toBe(25);
  expect(drainPercent({ live_claims: 0, drained: true }, 0)).toBe(100);
  // bare metal is one claim, on no slot
  expect(drainPercent({ live_claims: 1 }, 0)).toBe(0);
  expect(drainPercent({ live_claims: 9 }, 4)).toBe(0);
});
