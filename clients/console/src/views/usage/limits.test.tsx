import { QueryClient, QueryClientProvider } from "@tanstack/react-query";
import { renderToStaticMarkup } from "react-dom/server";
import { expect, it } from "vitest";
import { partsText } from "../../ui/meter";
import { Limits, limitsOf, partsOf } from "./limits";

const QUOTAS = { used_allocations: 2, max_allocations: 256, default_max_gpus: 64, quotas: [{ sku: "h200-sxm-slice", used_gpus: 8, max_gpus: 8 }] };

it("allocations come first, then each product, and nothing left is told as a warning", () => {
  const [allocations, gpus] = limitsOf(QUOTAS);
  expect(allocations).toEqual({ name: "Allocations", used: 2, most: 256 });
  expect(gpus).toEqual({ name: "GPUs of h200-sxm-slice", used: 8, most: 8 });
  expect(partsOf(allocations!)[0]?.tone).toBe("busy");
  expect(partsOf(gpus!)[0]?.tone).toBe("warn");
  expect(partsText(partsOf(gpus!))).toBe("8 in use");
});

it("more in use than a lowered limit allows leaves nothing, and not less than nothing", () => {
  expect(partsText(partsOf({ name: "Allocations", used: 3, most: 1 }))).toBe("3 in use");
});

it("a project that holds nothing sees its limits all the same", () => {
  const queries = new QueryClient();
  queries.setQueryData(["quotas", ""], { max_allocations: 256, default_max_gpus: 64 });
  const shown = renderToStaticMarkup(
    <QueryClientProvider client={queries}>
      <Limits />
    </QueryClientProvider>,
  );
  expect(shown).toContain("Allocations: 256 left");
  expect(shown).toContain("not named: 64 GPUs");
});
