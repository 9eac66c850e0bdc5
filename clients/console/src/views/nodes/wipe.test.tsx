import { QueryClient, QueryClientProvider } from "@tanstack/react-query";
import { renderToStaticMarkup } from "react-dom/server";
import { expect, it } from "vitest";
import type { Slot } from "../../api/types";
import { SlotBadges } from "./parts";
import { WipeNote } from "./slots";
import { isFirstWipe, percentIn, withoutPercent } from "./wipe";

const slot: Slot = { id: "s", node_id: "n", slot_index: 3, status: "cleanup", health_state: "unknown", health_detail: "The disk is being wiped and verified before its first use." };

it("a slot under its first wipe says why it is not schedulable and how far the wipe is", () => {
  const queries = new QueryClient();
  queries.setQueryData(["slot-repair", "s"], { state: "running", detail: "Wiping the disk. (40 %)" });
  const shown = renderToStaticMarkup(
    <QueryClientProvider client={queries}>
      <SlotBadges slot={slot} />
      <WipeNote slot={slot} />
    </QueryClientProvider>,
  );
  for (const text of ["First wipe", "Not schedulable yet", "before its first use", "Wiping the disk.", 'aria-valuenow="40"']) expect(shown).toContain(text);
  // its health is not in doubt: nobody has looked yet
  expect(shown).not.toContain("Unknown");
});

it("a later wipe, and a slot with an allocation, is no first wipe", () => {
  expect(isFirstWipe(slot)).toBe(true);
  expect(isFirstWipe({ ...slot, health_state: "healthy" })).toBe(false);
  expect(isFirstWipe({ ...slot, allocation_id: "a" })).toBe(false);
  expect(isFirstWipe({ ...slot, status: "cleanup_blocked" })).toBe(false);
});

it("the share of a step is read from its text", () => {
  expect([percentIn("Wiping (7 %)"), percentIn("Wiping"), percentIn("(400 %)")]).toEqual([7, undefined, 100]);
  expect(withoutPercent("Wiping the disk. (40 %)")).toBe("Wiping the disk.");
});
