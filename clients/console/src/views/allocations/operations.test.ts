import { expect, it } from "vitest";
import { observedIn, operationsOf } from "./operations";

const titles = (steps: string[]) => operationsOf(steps.map((step, index) => ({ step, sequence: String(index + 1) }))).map(({ title, entries }) => [title, entries.length]);

it("a timeline is grouped by operation", () => {
  expect(titles(["requested", "reserved", "provision.acquire_lease", "provision.start", "active", "stopping", "stop.stop", "stopped", "starting", "start.start", "running", "releasing", "release.wipe", "released"])).toEqual([
    ["Launch", 5],
    ["Stop", 3],
    ["Start", 3],
    ["Release", 3],
  ]);
});

it("a failed launch shows what the host saw last of the guest", () => {
  const error = { message: "no login as u_1 in time: the guest refuses the relay key" };
  expect(observedIn([{ step: "provision.start" }, { step: "provision.wait_login", state: "failed", error }, { step: "failed" }])).toBe(error.message);
  expect(observedIn([{ step: "provision.start" }])).toBeUndefined();
});

it("the same operation twice is two, and a guest that shuts itself down is one", () => {
  expect(titles(["provision.start", "active", "rebooting", "reboot.stop", "running", "rebooting", "running", "stopped"])).toEqual([
    ["Launch", 2],
    ["Reboot", 3],
    ["Reboot", 2],
    ["Stop", 1],
  ]);
  expect(titles(["provision.start", "failed"])).toEqual([["Launch", 2]]);
});
