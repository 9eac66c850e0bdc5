import { QueryClient, QueryClientProvider } from "@tanstack/react-query";
import { renderToStaticMarkup } from "react-dom/server";
import { expect, it } from "vitest";
import { Router } from "wouter";
import type { ComparisonRow, NodeDifference, Slot } from "../../api/types";
import { signInAs } from "../../session/fixture";
import { repairedBy } from "./differences";
import { ThreeWay } from "./three-way-view";

function shown(row: ComparisonRow, slots: Slot[] = [], differences: NodeDifference[] = []): string {
  signInAs("operator");
  const queries = new QueryClient();
  queries.setQueryData(["node-comparison", "n"], { rows: [{ allocation_id: "01930000-1000-7000-8000-0000000000ab", ledger_state: "active", domain_state: "running", verdict: "agrees", ...row }], differences });
  return renderToStaticMarkup(
    <QueryClientProvider client={queries}>
      <Router ssrPath="/admin/nodes/n">
        <ThreeWay nodeId="n" slots={slots} />
      </Router>
    </QueryClientProvider>,
  );
}

it("d_80_a_guest_that_does_not_answer_as_it_should_is_shown_beside_its_vm", () => {
  const texts = { no_gpu_tool: "VM has no nvidia-smi", gpu_tool_failed: "nvidia-smi fails in the VM", no_login: "VM is not reachable, or refuses the login", too_slow: "VM did not answer in time", malformed: "VM sent an invalid answer" } as const;
  for (const [state, words] of Object.entries(texts)) expect(shown({ guest_state: state as keyof typeof texts })).toContain(`Running<small class="muted block">${words}</small>`);
  const later = { guest_state: "too_hot" } as unknown as ComparisonRow;
  expect(shown(later)).toContain("VM: too hot");
});

it("d_80_a_guest_that_reported_everything_or_is_not_asked_is_not_mentioned", () => {
  for (const guest_state of ["unspecified", "off", "complete", undefined] as const) {
    const text = shown({ guest_state });
    expect(text).toContain("Running</td>");
    expect(text).not.toContain("muted block");
  }
});

it("d_80_d_82_what_differs_of_slots_and_partitions_is_beside_the_allocations_with_its_correction_or_why_there_is_none", () => {
  const drift = [{ kind: "driver_rebound" }];
  const slots: Slot[] = [
    { id: "s", slot_index: 3, status: "available", drift },
    { id: "d", slot_index: 4, status: "available" },
    { id: "h", slot_index: 5, status: "available" },
  ];
  const differences: NodeDifference[] = [
    { subject: "binding", kind: "driver_rebound", slot_id: "s", slot_index: 3, message: "It is bound to nvidia.", since: "2026-11-29T10:00:00Z", verdict: "report", correction: "repair_slot", detail: "a repair binds it" },
    { subject: "disk", kind: "disk_missing", slot_id: "d", slot_index: 4, message: "No disk has the identity.", verdict: "report", correction: "unspecified", detail: "no call corrects it" },
    { subject: "hold", kind: "held_on_host", slot_id: "h", slot_index: 5, message: "The host holds it.", verdict: "report", correction: "repair_slot", detail: "a repair removes it" },
    { subject: "partition", kind: "partition_unowned", observed: "6", message: "Partition 6 is active.", verdict: "report", correction: "deactivate_partition" },
    { subject: "partition", kind: "partition_unmatched", observed: "3", message: "Partition 3 is not active.", verdict: "report", correction: "unspecified" },
  ];
  const text = shown({}, slots, differences);
  for (const part of ["Slot 3", "It is bound to nvidia.", "A repair binds it.", "Slot 4", "No call corrects it.", "Slot 5", "GPU partition", "5 differences"]) expect(text).toContain(part);
  expect(text.match(/Repair <span class="visually-hidden">slot \d/g)).toEqual(['Repair <span class="visually-hidden">slot 3', 'Repair <span class="visually-hidden">slot 5']);
  expect(text.match(/Deactivate <span class="visually-hidden">partition \d/g)).toEqual(['Deactivate <span class="visually-hidden">partition 6']);
  expect(shown({}, slots)).not.toContain("Slot 3");
});

it("d_82_a_difference_whose_slot_is_not_repaired_by_a_call_has_no_button", () => {
  const one: NodeDifference = { kind: "driver_rebound", slot_id: "s", correction: "repair_slot" };
  expect(repairedBy(one, [{ id: "s", status: "active", allocation_id: "a" }])).toBeUndefined();
  expect(repairedBy(one, [{ id: "s", status: "cleanup_blocked" }])?.id).toBe("s");
  expect(repairedBy({ ...one, correction: "unspecified" }, [{ id: "s", status: "cleanup_blocked" }])).toBeUndefined();
  expect(repairedBy({ kind: "held_on_host", correction: "repair_slot" }, [{ status: "available" }])).toBeUndefined();
});
