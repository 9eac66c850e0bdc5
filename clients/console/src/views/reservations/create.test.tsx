import { QueryClient, QueryClientProvider } from "@tanstack/react-query";
import { renderToStaticMarkup } from "react-dom/server";
import { expect, it, vi } from "vitest";
import { Router } from "wouter";
import type { Side } from "../../api/capacity";
import type { Guardrails } from "../../api/guardrails";
import { signInAs } from "../../session/fixture";
import Reserve from "./create";

vi.hoisted(() => vi.stubGlobal("matchMedia", () => ({ matches: false, addEventListener: () => {} })));

const REFUSES = "The API refuses a region or SKU that the organisation of the project does not allow.";
const FORBIDDEN = "Your organisation does not allow this region.";

/** The form of somebody with a project of an organisation, whose guardrails may not be known yet. */
function shown(side: Side, guardrails?: Guardrails): string {
  signInAs("operator", { projects: [{ id: "p", slug: "vision", organisation_id: "o" }], project: "p" });
  const queries = new QueryClient();
  queries.setQueryData(["skus"], [{ code: "s", display_name: "Slice", capacity_shape: "gpu_slice", allowed_gpu_counts: [1] }]);
  queries.setQueryData(["regions"], [{ code: "a", enabled: true }, { code: "b", enabled: true }]);
  queries.setQueryData(["images"], []);
  queries.setQueryData(["availability", "p"], []);
  queries.setQueryData(["quotas", "p"], { max_reserved_gpus: 8 });
  if (guardrails) queries.setQueryData(["guardrails", "o"], guardrails);
  return renderToStaticMarkup(
    <QueryClientProvider client={queries}>
      <Router ssrPath="/admin/reservations/new">
        <Reserve side={side} />
      </Router>
    </QueryClientProvider>,
  );
}

it("an operator does not wait for the guardrails of the own project, which do not bind, and is told who refuses", () => {
  expect(shown("operator")).toContain(REFUSES);
  const form = shown("operator", { allowed_regions: ["b"] });
  expect(form).toContain(REFUSES);
  expect(form).not.toContain(FORBIDDEN);
});

it("a member waits for those of the organisation, and is not offered what they forbid", () => {
  expect(shown("project")).toContain("Loading SKUs and regions");
  const form = shown("project", { allowed_regions: ["b"] });
  expect(form).toContain(FORBIDDEN);
  expect(form).not.toContain(REFUSES);
});
