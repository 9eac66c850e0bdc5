import { QueryClient, QueryClientProvider } from "@tanstack/react-query";
import { renderToStaticMarkup } from "react-dom/server";
import { expect, it } from "vitest";
import { Router } from "wouter";
import { placementText } from "../../lib/plans";
import { Moves, movesText } from "./moves";
import type { Sku } from "../../api/types";
import { Suggestion, firstWithNodes } from "./defragmentation";
import { nodeParts, recoveryText } from "./bare-metal";

const moves = [
  { allocation: { id: "1", name: "train", project_id: "0198aaaa-1", sku: "s", gpu_count: 2 }, placement: { hostname: "h2", slot_indexes: [4, 5] } },
  { allocation: { id: "2", name: "dev", project_id: "0198bbbb-2", sku: "s", gpu_count: 1 }, placement: { hostname: "h3", slot_indexes: [0] } },
];

it("moves show what goes where", () => {
  expect(movesText(moves)).toBe("2 allocations with 3 GPUs");
  expect(placementText(moves[1]!.placement)).toBe("h3, slot 0");
  const shown = renderToStaticMarkup(
    <QueryClientProvider client={new QueryClient()}>
      <Moves moves={moves} label="Moves off h1" />
    </QueryClientProvider>,
  );
  expect(shown).toContain("h2, slots 4, 5");
  // a project that one does not belong to is shown by the start of its id
  expect(shown).toContain('<code title="0198aaaa-1">0198aaaa</code>');
});

it("b_47_nodes_are_counted_once_each_for_bare_metal_and_the_moves_that_would_free_more_are_named", () => {
  const nodes = { nodes: 9, baremetal_free: 2, baremetal_allocated: 1, clean: 2, sliced: 4, recoverable: 1, moves: 2, gpus_moved: 3 };
  expect(nodeParts(nodes).reduce((sum, { value }) => sum + value, 0)).toBe(9);
  expect(recoveryText(nodes)).toBe("2 moves of 3 GPUs in total would free 1 node for bare metal.");
  expect(recoveryText({ nodes: 3, sliced: 2 })).toContain("No node can be freed");
  // with one node there are no others
  expect(recoveryText({ nodes: 1, sliced: 1 })).toBe("This is the only node, so its allocations cannot move elsewhere.");
  expect(recoveryText({})).toBe("No node runs VMs.");
});

it("the default SKU is one with nodes in the region, if there is one", () => {
  const skus = [{ code: "big", slot_class: "h" }, { code: "small", slot_class: "lab" }] as Sku[];
  const first = (region: string) => firstWithNodes(skus, region, [{ region_code: "a", slot_class: "lab", nodes: 1 }])?.code;
  expect([first("a"), first("b")]).toEqual(["small", "big"]);
});

it("a defragmentation is shown step by step, with what each step gains", () => {
  const steps = [{ node_id: "a", hostname: "h1", gained: 1, moves: moves.slice(0, 1) }, { node_id: "b", hostname: "h4", gained: 2, moves: moves.slice(1) }];
  const show = (plan: Parameters<typeof Suggestion>[0]["plan"]) =>
    renderToStaticMarkup(
      <QueryClientProvider client={new QueryClient()}>
        <Router ssrPath="/">
          <Suggestion plan={plan} max_moves={8} />
        </Router>
      </QueryClientProvider>,
    );
  const shown = show({ gpu_count: 8, fits_before: 1, fits_after: 4, steps, cut: true, notice: "This is a plan." });
  expect(shown.indexOf("h1</a>")).toBeLessThan(shown.indexOf("h4</a>"));
  for (const text of ["3 more", "2 allocations with 3 GPUs", "2 more launches", "reached its limit", "This is a plan."]) expect(shown).toContain(text);
  const none = show({ gpu_count: 8, fits_before: 1, fits_after: 1 });
  expect(none).toContain("Moving at most 8 allocations does not let another launch fit");
  expect(none).not.toContain("reached its limit");
});
