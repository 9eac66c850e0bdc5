import { expect, it } from "vitest";
import { actorOf, actorText, observedIn, operationsOf } from "./operations";

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

it("a timeline says who asked for what runs now, and names no operator", () => {
  const entries = [
    { step: "reserve", actor: "user:alice" },
    { step: "stopping", actor: "operator", reason: "new fans" },
    { step: "stopped" },
    { step: "starting", actor: "user:bob" },
    { step: "start.start" },
  ];
  expect(actorOf(entries)).toBe("user:bob");
  expect(actorOf(entries, "stopping")).toBe("an operator");
  expect(actorOf(entries.slice(0, 1))).toBe("user:alice");
  expect(actorOf([{ step: "stopped" }])).toBe("");
  expect(actorText({})).toBe("");
});

it("the same operation twice is two, and a guest that shuts itself down is one", () => {
  expect(titles(["provision.start", "active", "rebooting", "reboot.stop", "running", "rebooting", "running", "stopped"])).toEqual([
    ["Launch", 2],
    ["Reboot", 3],
    ["Reboot", 2],
    ["Stop", 1],
  ]);
  expect(titles(["provision.start", "failed"])).toEqual([["Launch", 2]]);
  expect(titles(["provision.start", "failed", "repair.remove_reservation", "repair.wipe"])).toEqual([
    ["Launch", 2],
    ["Slot repair", 2],
  ]);
});
