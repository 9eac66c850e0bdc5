import { QueryClient, QueryClientProvider } from "@tanstack/react-query";
import { renderToStaticMarkup } from "react-dom/server";
import { expect, it } from "vitest";
import { Router } from "wouter";
import type { ComparisonRow, Slot } from "../../api/types";
import { signInAs } from "../../session/fixture";
import { ThreeWay } from "./three-way-view";

function shown(row: ComparisonRow, slots: Slot[] = []): string {
  signInAs("operator");
  const queries = new QueryClient();
  queries.setQueryData(["node-comparison", "n"], { rows: [{ allocation_id: "01930000-1000-7000-8000-0000000000ab", ledger_state: "active", domain_state: "running", verdict: "agrees", ...row }] });
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

it("d_80_a_free_slot_whose_device_another_driver_took_is_beside_the_allocations_with_its_repair", () => {
  const drift = [{ kind: "driver_rebound", message: "The device is bound to nvidia instead of vfio-pci.", remediation: "Repair it." }];
  const text = shown({}, [{ id: "s", slot_index: 3, status: "available", drift }]);
  for (const part of ["Slot 3", "bound to nvidia instead of vfio-pci", "Repair "]) expect(text).toContain(part);
  expect(shown({}, [{ id: "s", slot_index: 3, status: "active", allocation_id: "a", drift }])).not.toContain("Slot 3");
});
