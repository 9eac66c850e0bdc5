import { expect, it } from "vitest";
import type { Discovery, Slot } from "../../api/types";
import { drift, isNew } from "./drift";

const slot: Slot = { slot_index: 1, status: "available", bindings: { nvme_device: "disk-a", private_ip: "10.0.0.1" } };
const seen = (nvme_device: string, slot_index = 1): Discovery => ({
  state: "completed",
  candidates: [{ slot_index, bindings: { nvme_device, private_ip: "10.0.0.1" } }],
});

it("h_29_drift_of_a_slot_is_named", () => {
  expect(drift(slot, seen("disk-a"))).toEqual([]);
  expect(drift(slot, seen("disk-b"))).toEqual(["Disk has drifted: approved disk-a, found disk-b."]);
  expect(drift(slot, seen("disk-a", 2))).toEqual(["The latest discovery does not contain this slot."]);
  expect(drift(slot, { state: "running" })).toEqual([]);
  expect(drift(slot, undefined)).toEqual([]);
});

it("h_30_approved_candidates_are_distinguished_from_new_ones", () => {
  expect(isNew({ slot_index: 1 }, [slot])).toBe(false);
  expect(isNew({ slot_index: 2 }, [slot])).toBe(true);
  expect(isNew({ slot_index: 1 }, [{ ...slot, status: "retired" }])).toBe(true);
});
