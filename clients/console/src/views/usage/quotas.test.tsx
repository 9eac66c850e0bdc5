import { QueryClient, QueryClientProvider } from "@tanstack/react-query";
import { renderToStaticMarkup } from "react-dom/server";
import { expect, it } from "vitest";
import { partsText } from "../../ui/meter";
import { Quotas, nowText, partsOf, quotasOf } from "./quotas";

const QUOTAS = { used_allocations: 2, max_allocations: 256, default_max_gpus: 64, quotas: [{ sku: "h200-sxm-slice", used_gpus: 8, max_gpus: 8 }] };

it("allocations come first, then each SKU, and an exhausted quota is a warning", () => {
  const [allocations, gpus] = quotasOf(QUOTAS);
  expect(allocations).toEqual({ name: "Allocations", used: 2, limit: 256 });
  expect(gpus).toEqual({ name: "GPUs of h200-sxm-slice", used: 8, limit: 8 });
  expect(partsOf(allocations!)[0]?.tone).toBe("busy");
  expect(partsOf(gpus!)[0]?.tone).toBe("warn");
  expect(partsText(partsOf(gpus!))).toBe("8 in use");
});

it("nothing is available, and not less than nothing, where more is in use than a lowered limit allows", () => {
  expect(partsText(partsOf({ name: "Allocations", used: 3, limit: 1 }))).toBe("3 in use");
});

it("a project without allocations sees its quotas", () => {
  const queries = new QueryClient();
  queries.setQueryData(["quotas", ""], { max_allocations: 256, default_max_gpus: 64 });
  const shown = renderToStaticMarkup(
    <QueryClientProvider client={queries}>
      <Quotas />
    </QueryClientProvider>,
  );
  expect(shown).toContain("Allocations: 256 available");
  expect(shown).toContain("other SKU is 64 GPUs");
});

it("the dialog says what the limit is now, of a SKU without one of its own the default", () => {
  const quotas = { max_allocations: 32, used_allocations: 4, default_max_gpus: 2, quotas: [{ sku: "h200", max_gpus: 16, used_gpus: 6 }, { sku: "none" }] };
  expect(nowText(quotas, "")).toBe("Now 32, 4 used.");
  expect(nowText(quotas, "h200")).toBe("Now 16, 6 used.");
  expect(nowText(quotas, "l40s")).toBe("Now 2, 0 used.");
  // a quota of 0 is one, too
  expect(nowText(quotas, "none")).toBe("Now 0, 0 used.");
  expect(nowText({}, "l40s")).toBe("Now 0, 0 used.");
});
