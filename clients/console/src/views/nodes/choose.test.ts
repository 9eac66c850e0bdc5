import { expect, it } from "vitest";
import type { Discovery, Slot, SlotCandidate } from "../../api/types";
import { blockersOf, choicesOf, optionsOf } from "./choose";

const disk = (name: string, more = {}) => ({ by_id: `/dev/disk/by-id/nvme-eui.${name}`, bytes: "1073741824", ...more });
const candidate: SlotCandidate = {
  slot_index: 0,
  bindings: { gpu_pci_address: "0000:1b:00.0", nvme_device: "/dev/disk/by-id/nvme-eui.a", fabric_vf_pci_address: "0000:5e:00.1", destructive_wipe_policy: "blkdiscard" },
  blockers: ["nvme0n1: media errors"],
  disk_blockers: ["nvme0n1: media errors"],
};
const discovery: Discovery = {
  host: {
    disks: [disk("a"), disk("b"), disk("c"), disk("used", { uses: [{ kind: "mount" }] }), disk("bad", { fault: "I/O error" })],
    fabric_devices: [{ virtual_functions: [{ function: { pci_address: "0000:5e:00.1" } }, { function: { pci_address: "0000:5e:00.2" } }] }],
  },
};
const slots: Slot[] = [
  { slot_index: 1, status: "available", bindings: { nvme_device: "/dev/disk/by-id/nvme-eui.b" } },
  { slot_index: 2, status: "retired", bindings: { nvme_device: "/dev/disk/by-id/nvme-eui.c" } },
];

it("a_68_a_slot_may_have_what_is_sound_unused_and_no_other_slots", () => {
  const options = optionsOf(candidate, discovery, slots);
  const values = (field: keyof typeof options) => options[field].map((option) => option.value);
  expect(values("nvme_device")).toEqual(["", "/dev/disk/by-id/nvme-eui.c"]);
  expect(options.nvme_device[0]?.label).toBe("/dev/disk/by-id/nvme-eui.a");
  expect(values("fabric_vf_pci_address")).toEqual(["", "0000:5e:00.2"]);
  expect(values("destructive_wipe_policy")).toEqual(["", "nvme_format", "site_erase"]);
});

it("a_68_another_disk_settles_what_stands_against_the_first_and_nothing_else", () => {
  const other = { nvme_device: "/dev/disk/by-id/nvme-eui.c" };
  expect([blockersOf(candidate, discovery), blockersOf(candidate, discovery, other)]).toEqual([["nvme0n1: media errors"], []]);
  expect(blockersOf({ ...candidate, blockers: ["nvme0n1: media errors", "GPU is dead"] }, discovery, other)).toEqual(["GPU is dead"]);
  expect(choicesOf({ 0: other, 1: { nvme_device: "" }, 2: other }, [0, 1])).toEqual([{ slot_index: 0, ...other }]);
});

it("choices_are_shown_in_one_order_whatever_was_chosen_first", () => {
  const [shown] = choicesOf({ 0: { destructive_wipe_policy: "nvme_format", nvme_device: "/dev/disk/by-id/nvme-eui.c" } }, [0]);
  expect(Object.keys(shown ?? {})).toEqual(["slot_index", "nvme_device", "destructive_wipe_policy"]);
});

it("d_75_only_the_wipe_policies_that_the_disk_of_the_slot_can_do_are_offered", () => {
  const inspected = (name: string, ...wipe_policies: string[]) => ({ device: `/dev/disk/by-id/nvme-eui.${name}`, wipe_policies });
  const told: Discovery = { ...discovery, inspected_devices: [inspected("a", "blkdiscard", "site_erase"), inspected("c", "nvme_format")] };
  const sound = { ...candidate, blockers: [], disk_blockers: [] };
  const other = { nvme_device: "/dev/disk/by-id/nvme-eui.c" };
  const policies = (choice: object) => optionsOf(sound, told, slots, choice).destructive_wipe_policy.map((option) => option.value);
  expect([policies({}), policies(other)]).toEqual([["", "site_erase"], ["", "nvme_format"]]);
  expect(blockersOf(sound, told)).toEqual([]);
  expect(blockersOf(sound, told, other)).toEqual(["The disk cannot be wiped by blkdiscard; it can by nvme_format."]);
  expect(blockersOf(sound, told, { ...other, destructive_wipe_policy: "nvme_format" })).toEqual([]);
});
