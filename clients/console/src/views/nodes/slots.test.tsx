import { QueryClient, QueryClientProvider } from "@tanstack/react-query";
import { renderToStaticMarkup } from "react-dom/server";
import { beforeAll, expect, it } from "vitest";
import { signInAs } from "../../session/fixture";
import type { Allocation, Slot } from "../../api/types";
import { Router } from "wouter";
import { openSlots } from "./bulk";
import { SlotActions, SlotCard, Slots, anchorOf } from "./slots";

beforeAll(() => signInAs("operator"));

const shown = (slot: Slot) =>
  renderToStaticMarkup(
    <QueryClientProvider client={new QueryClient()}>
      <SlotActions slot={slot} allocation={undefined} isLost={false} />
    </QueryClientProvider>,
  );

it("a retired slot offers nothing, and its place is that of the slot which has its index now", () => {
  const retired: Slot = { id: "s1", node_id: "n", slot_index: 3, status: "retired", disabled: true };
  const next: Slot = { ...retired, id: "s2", status: "disabled" };
  expect(shown(retired)).not.toContain("<button");
  expect(shown(next)).toContain("Enable");
  expect(anchorOf(retired)).not.toBe(anchorOf(next));
  expect(anchorOf(next)).toBe("slot-3");
});

const ID = "01930000-1000-7000-8000-0000000000ab";
const owned: Slot = { id: "s1", node_id: "n", slot_index: 3, status: "active", allocation_id: ID };
const owner: Allocation = { id: ID, config: { name: "train", project_id: "p" } };
const inQueries = (page: React.ReactNode) => {
  const queries = new QueryClient();
  queries.setQueryData(["projects"], [{ id: "p", slug: "vision" }]);
  return renderToStaticMarkup(
    <QueryClientProvider client={queries}>
      <Router ssrPath="/admin/nodes/n">{page}</Router>
    </QueryClientProvider>,
  );
};

it("a slot card names the allocation and project that have the slot, and leads to the allocation", () => {
  const card = inQueries(<SlotCard slot={owned} allocation={owner} isLost={false} />);
  for (const part of [`href="/admin/allocations/${ID}"`, ">train</a>", ">vision</span>"]) expect(card).toContain(part);
  // not loaded yet, or gone
  expect(inQueries(<SlotCard slot={owned} allocation={undefined} isLost={false} />)).toContain("…000000ab</code>");
  expect(inQueries(<SlotCard slot={{ ...owned, allocation_id: "" }} allocation={undefined} isLost={false} />)).not.toContain("/admin/allocations/");
});

it("several slots are changed together: each change is for those that it applies to", () => {
  const slots: Slot[] = [owned, { ...owned, id: "s2", slot_index: 4, status: "disabled", disabled: true, allocation_id: "", generation: "2", clean_generation: "1" }, { ...owned, id: "s3", status: "retired" }];
  const ids = (verb: "disable" | "enable" | "repair") => openSlots(verb, slots).map(({ id }) => id);
  expect([ids("disable"), ids("enable"), ids("repair")]).toEqual([["s1"], ["s2"], ["s2"]]);
  const page = inQueries(<Slots slots={slots} isLost={false} />);
  expect(page.match(/aria-label="Select slot \d"/g)).toEqual(['aria-label="Select slot 3"', 'aria-label="Select slot 4"']);
  signInAs("auditor");
  expect(inQueries(<Slots slots={slots} isLost={false} />)).not.toContain("Select slot");
  expect(inQueries(<Slots slots={[]} isLost={false} />)).toContain("Run a discovery");
  expect(inQueries(<Slots slots={[]} isLost={false} isPending />)).toContain("The agent must enrol first");
  signInAs("operator");
});
