import { expect, it } from "vitest";
import { drainPercent, isSchedulable } from "./placement";

it("a node that is out of service does not count as schedulable", () => {
  const ready = { status: { schedulable: true } };
  expect(isSchedulable(ready, undefined)).toBe(true);
  expect(isSchedulable(ready, { admin_state: "enabled" })).toBe(true);
  expect(isSchedulable(ready, { admin_state: "draining" })).toBe(false);
  expect(isSchedulable(ready, { admin_state: "cordoned" })).toBe(false);
  expect(isSchedulable({ status: { schedulable: false } }, { admin_state: "enabled" })).toBe(false);
});

it("a drain progresses with the slots that have no claim", () => {
  expect(drainPercent({ live_claims: 3 }, 4)).toBe(25);
  expect(drainPercent({ live_claims: 0, drained: true }, 0)).toBe(100);
  // bare metal is one claim, on no slot
  expect(drainPercent({ live_claims: 1 }, 0)).toBe(0);
  expect(drainPercent({ live_claims: 9 }, 4)).toBe(0);
});
