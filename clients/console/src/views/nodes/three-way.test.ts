import { expect, it } from "vitest";
import type { ComparisonRow, Slot } from "../../api/types";
import { actionsOf, correctionOf, filesOf, isRepairable, sorted, verdictOf } from "./three-way";

const row = (allocation_id: string, verdict: ComparisonRow["verdict"], more: ComparisonRow = {}): ComparisonRow => ({ allocation_id, verdict, ...more });

it("differences come first, those that wait for an operator before all", () => {
  const rows = [row("b", "agrees"), row("a", "agrees"), row("c", "finish"), row("d", "undo"), row("e", "report"), row("f", "adopt")];
  expect(sorted(rows).map(({ allocation_id }) => allocation_id)).toEqual(["e", "d", "f", "c", "a", "b"]);
  // what a later release says is no agreement
  expect(sorted([row("b", "agrees"), row("a", "unspecified")])[0]?.allocation_id).toBe("a");
  expect(verdictOf(row("a", "report"))).toEqual(["Operator decides", "bad"]);
  expect(verdictOf(row("a", "unspecified"))).toEqual(["Unknown", "idle"]);
});

it("p5_only_what_an_operator_decides_has_a_repair_and_only_one_that_is_accepted", () => {
  const blocked: Slot = { id: "1", status: "cleanup_blocked", allocation_id: "gone" };
  const unproven: Slot = { id: "2", status: "disabled", clean_generation: "1", generation: "2" };
  const busy: Slot = { id: "3", status: "active", allocation_id: "other" };
  const slots = [blocked, unproven, busy];
  const held = { journal_slot_ids: ["1", "2", "3"] };
  // the host holds slots for what is over
  expect(actionsOf(row("x", "report", held), slots)).toEqual({ release: false, repair: [blocked, unproven] });
  // the ledger says which slots it has
  expect(actionsOf(row("gone", "report"), slots)).toEqual({ release: false, repair: [blocked] });
  // active without a VM
  expect(actionsOf(row("other", "report", { ledger_state: "active" }), slots)).toEqual({ release: true, repair: [] });
  expect(actionsOf(row("other", "report", { ledger_state: "active", domain_state: "paused" }), slots).release).toBe(false);
  for (const verdict of ["agrees", "adopt", "finish", "undo"] as const) {
    expect(actionsOf(row("gone", verdict, { ...held, ledger_state: "active" }), slots)).toEqual({ release: false, repair: [] });
  }
});

it("d_80_a_free_slot_whose_device_another_driver_took_is_repaired_and_no_other_drift_is", () => {
  const rebound = { kind: "driver_rebound", needs_wipe: false };
  const slot = (more: Slot): Slot => ({ id: "1", status: "available", clean_generation: "2", generation: "2", drift: [rebound], ...more });
  expect([slot({}), slot({ status: "disabled" })].map(isRepairable)).toEqual([true, true]);
  const others = [
    slot({ drift: [] }),
    slot({ drift: [{ kind: "gpu_missing", needs_wipe: false }] }),
    slot({ drift: [rebound, { kind: "disk_missing", needs_wipe: true }] }),
    slot({ drift: [rebound, { kind: "unknown_domain", needs_wipe: false }] }),
    slot({ status: "active", allocation_id: "a" }),
    slot({ status: "cleanup" }),
    slot({ status: "retired" }),
  ];
  expect(others.map(isRepairable)).toEqual(others.map(() => false));
});

it("d_82_a_row_says_what_its_correction_does_and_which_files_the_host_has", () => {
  expect(correctionOf(row("a", "agrees", { correction: "unspecified" }))).toBeUndefined();
  expect(correctionOf(row("a", "agrees"))).toBeUndefined();
  const offered = (["adopt", "finish", "undo", "report"] as const).map((correction) => correctionOf(row("a", "report", { correction }))?.action);
  expect(offered).toEqual(["Adopt", "Finish", "Undo", "Acknowledge"]);
  expect(correctionOf(row("a", "undo", { correction: "undo" }))?.text).toContain("Disks do not change");
  expect(filesOf(row("a", "report", { has_reservation: true, has_port: true, has_partition: true, has_seed: true, has_nvram: true }))).toBe("address reserved, port, partition, cloud-init disk, NVRAM");
  expect(filesOf(row("a", "agrees"))).toBe("");
});
