import { QueryClient, QueryClientProvider } from "@tanstack/react-query";
import { renderToStaticMarkup } from "react-dom/server";
import { expect, it, vi } from "vitest";
import { Router } from "wouter";
import { queryOf } from "../../api/explanation";
import type { PlacementExplanation } from "../../api/types";
import Launch from "./launch";

// the frame of a view asks the browser for its theme
vi.hoisted(() => vi.stubGlobal("matchMedia", () => ({ matches: false, addEventListener: () => {} })));

/** The form where one GPU is free, with what is explained of a launch of one and of two. */
function shown(one: PlacementExplanation | undefined, two?: PlacementExplanation): string {
  const queries = new QueryClient();
  const sku = { code: "s", display_name: "Slice", capacity_shape: "gpu_slice", allowed_gpu_counts: [1, 2], price_per_gpu_hour: { currency_code: "USD", units: "1", nanos: 0 } };
  queries.setQueryData(["skus"], [sku]);
  queries.setQueryData(["regions"], [{ code: "a", enabled: true }]);
  queries.setQueryData(["images"], [{ slug: "i", status: "active", compatible_skus: ["s"] }]);
  queries.setQueryData(["availability", ""], [{ region_code: "a", sku: "s", gpu_count: 1, fits: 1 }, { region_code: "a", sku: "s", gpu_count: 2, fits: 1 }]);
  [one, two].forEach((explanation, index) => {
    const query = { project_id: "", ...queryOf({ region_code: "a", sku: "s", gpu_count: index + 1 }) };
    if (explanation) queries.setQueryData(["explanation", query], explanation);
  });
  return renderToStaticMarkup(
    <QueryClientProvider client={queries}>
      <Router ssrPath="/">
        <Launch />
      </Router>
    </QueryClientProvider>,
  );
}

/** The button as it is drawn. */
const button = (text: string) => text.match(/<button[^>]*type="submit"[^>]*>/)?.[0] ?? "";

it("b_57_the_form_never_shows_available_beside_fits_nowhere_and_its_button_agrees", () => {
  const ahead = { nodes: 1, nodes_fit: 0, removed: [{ reason: "QUEUED_AHEAD", message: "1 GPU on 1 node goes to requests ahead in the queue." }] };
  const refused = shown(ahead, ahead);
  expect(refused).not.toMatch(/\d available/);
  for (const text of ["Fits on 0 of 1 node", "goes to requests ahead in the queue", "Select “Queue this launch if it does not fit now”."]) expect(refused).toContain(text);
  expect(button(refused)).toContain("disabled");
  // each size shows its explanation
  const some = shown({ nodes: 1, nodes_fit: 1 }, ahead);
  expect(some.match(/1 available/g)).toHaveLength(2);
  expect(some.match(/None fits now/g)).toHaveLength(1);
  expect(button(some)).not.toContain("disabled");
  // until there is an explanation, the availability counts
  expect(button(shown(undefined))).not.toContain("disabled");
});
