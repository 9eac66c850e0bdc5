import { QueryClient, QueryClientProvider } from "@tanstack/react-query";
import { renderToStaticMarkup } from "react-dom/server";
import { expect, it } from "vitest";
import type { Slot } from "../../api/types";
import { SlotActions, anchorOf } from "./slots";

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
