import { renderToStaticMarkup } from "react-dom/server";
import { expect, it } from "vitest";
import { Router } from "wouter";
import type { Slot, SlotComparison } from "../../api/types";
import { Comparison, Drifts } from "./compare";
import { isNew } from "./drift";

const slot: Slot = { slot_index: 1, status: "available" };
const binding = (field: string, approved: string, found: string) => ({ field, approved, found, differs: approved !== found });
const comparisons: SlotComparison[] = [
  { slot_index: 0, slot_id: "a", state: "same", bindings: [binding("gpu_pci_address", "gpu-0", "gpu-0")] },
  { slot_index: 1, slot_id: "b", state: "different", bindings: [binding("nvme_device", "disk-a", "disk-b"), binding("private_ip", "10.0.0.1", "10.0.0.1")] },
  { slot_index: 2, slot_id: "c", state: "not_found", bindings: [binding("nvme_device", "disk-c", "")] },
  { slot_index: 3, slot_id: "", state: "new", bindings: [binding("nvme_device", "", "disk-d")] },
];
const shown = (list: SlotComparison[], search = "") =>
  renderToStaticMarkup(
    <Router ssrPath="/admin/nodes/n" ssrSearch={search}>
      <Comparison comparisons={list} />
    </Router>,
  );

it("h_29_drift_of_a_slot_is_named_with_what_to_do_and_since_when", () => {
  const drift = { kind: "disk_in_use", message: "Its disk is mounted at /mnt.", remediation: "Unmount it.", since: "2026-01-02T03:04:05Z", needs_wipe: true };
  const text = renderToStaticMarkup(<Drifts slot={{ ...slot, drift: [drift] }} />);
  for (const part of ["Its disk is mounted at /mnt.", "Unmount it.", 'dateTime="2026-01-02T03:04:05Z"', "until a repair has wiped the disk"]) expect(text).toContain(part);
  expect(renderToStaticMarkup(<Drifts slot={slot} />)).toBe("");
});

it("a_111_approved_and_found_stand_side_by_side_as_the_platform_compares_them", () => {
  const text = shown(comparisons);
  for (const part of ["disk-a", "disk-b", "Not found", "disk-c"]) expect(text).toContain(part);
  // what agrees is shown when it is asked for, and a candidate that is no slot has nothing to be compared with
  expect(text).not.toContain("gpu-0");
  expect(text).not.toContain("disk-d");
  expect(shown(comparisons, "?all=1")).toContain("gpu-0");
  expect(shown(comparisons.slice(0, 1))).toContain("matches every approved slot");
  expect(shown(comparisons.slice(3))).toBe("");
});

it("h_30_approved_candidates_are_distinguished_from_new_ones", () => {
  expect(isNew({ slot_index: 1 }, [slot])).toBe(false);
  expect(isNew({ slot_index: 2 }, [slot])).toBe(true);
  expect(isNew({ slot_index: 1 }, [{ ...slot, status: "retired" }])).toBe(true);
});
