import { expect, it } from "vitest";
import { leftOf } from "./quota";

it("a SKU without a quota of its own has the default, and nothing is below nothing", () => {
  const quotas = { max_allocations: 2, used_allocations: 3, default_max_gpus: 64, quotas: [{ sku: "a", max_gpus: 8, used_gpus: 5 }] };
  expect(leftOf(quotas, "a")).toEqual({ gpus: 3, allocations: 0 });
  expect(leftOf(quotas, "b")).toEqual({ gpus: 64, allocations: 0 });
});
