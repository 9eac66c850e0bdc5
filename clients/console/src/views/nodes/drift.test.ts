import { expect, it } from "vitest";
import type { Discovery, Slot } from "../../api/types";
import { comparisonsOf, differencesOf, isNew } from "./drift";

const slot: Slot = { slot_index: 1, status: "available", bindings: { nvme_device: "disk-a", private_ip: "10.0.0.1" } };
const seen = (nvme_device: string, slot_index = 1): Discovery => ({
  state: "completed",
  candidates: [{ slot_index, bindings: { nvme_device, private_ip: "10.0.0.1" } }],
});
const drift = (discovery: Discovery | undefined) => comparisonsOf([slot], discovery).flatMap(differencesOf);

it("h_29_drift_of_a_slot_is_named", () => {
  expect(drift(seen("disk-a"))).toEqual([]);
  expect(drift(seen("disk-b"))).toEqual(["Disk has drifted: approved disk-a, found disk-b."]);
  expect(drift(seen("disk-a", 2))).toEqual(["The latest discovery does not contain this slot."]);
  expect(drift({ state: "running" })).toEqual([]);
  expect(drift(undefined)).toEqual([]);
});

it("h_29_approved_and_found_stand_side_by_side_for_every_slot_and_candidate", () => {
  expect(comparisonsOf([slot], seen("disk-b")).map(({ slot_index, state }) => [slot_index, state])).toEqual([[1, "different"]]);
  expect(comparisonsOf([slot], seen("disk-a", 2)).map(({ slot_index, state }) => [slot_index, state])).toEqual([[1, "not_found"], [2, "new"]]);
  expect(comparisonsOf([{ ...slot, status: "retired" }], seen("disk-a")).map(({ state }) => state)).toEqual(["new"]);
});

it("h_30_approved_candidates_are_distinguished_from_new_ones", () => {
  expect(isNew({ slot_index: 1 }, [slot])).toBe(false);
  expect(isNew({ slot_index: 2 }, [slot])).toBe(true);
  expect(isNew({ slot_index: 1 }, [{ ...slot, status: "retired" }])).toBe(true);
});
