import { expect, it } from "vitest";
import type { Allocation } from "../../api/types";
import { overallPercent, stateWord } from "./state";

const progress = { steps_done: 1, steps_total: 4, percent: 50 };

it("progress counts the running step's own share, and is shown only on the way", () => {
  const percent = (status: Allocation["status"]) => overallPercent({ status: { progress, ...status } });
  expect(percent({ state: "provisioning" })).toBe(37.5);
  expect(percent({ state: "active", power: "stopping" })).toBe(37.5);
  expect(percent({ state: "active", power: "stopped" })).toBeUndefined();
  expect(percent({ state: "released" })).toBeUndefined();
  expect(percent({ state: "provisioning", progress: { steps_total: 0 } })).toBeUndefined();
});

it("a queued request is called queued, and an active allocation by its power when that is not running", () => {
  expect(stateWord({ status: { state: "requested", queue: { position: 1 } } })).toBe("queued");
  expect(stateWord({ status: { state: "active", power: "running" } })).toBe("active");
  expect(stateWord({ status: { state: "active", power: "rebooting" } })).toBe("rebooting");
  expect(stateWord({ status: { state: "releasing", power: "stopped" } })).toBe("releasing");
});
