import { expect, it } from "vitest";
import type { UsageInterval } from "../../api/types";
import { grouped } from "./groups";

const part = (interval: UsageInterval, nanos: bigint, currency = "EUR") => ({ interval, amount: { currency, nanos } });
const seen = (parts: ReturnType<typeof part>[], by: Parameters<typeof grouped>[1]) => grouped(parts, by).map(({ name, amount }) => [name, amount.currency, amount.nanos]);

it("groups have the most first, per currency", () => {
  const bySku = ({ sku = "" }: UsageInterval) => sku;
  const parts = [part({ sku: "b" }, 2n), part({ sku: "a" }, 1n), part({ sku: "a" }, 3n), part({ sku: "a" }, 9n, "USD")];
  expect(seen(parts, { idOf: bySku, nameOf: bySku })).toEqual([["a", "USD", 9n], ["a", "EUR", 4n], ["b", "EUR", 2n]]);
});

it("two allocations of one name, and two projects of one slug, stay apart", () => {
  const [first, second] = ["01930000-0000-7000-8000-000000000001", "01930000-0000-7000-8000-000000000002"];
  const parts = [part({ allocation_id: first }, 5n), part({ allocation_id: second }, 3n), part({ allocation_id: first }, 1n)];
  expect(seen(parts, { idOf: ({ allocation_id = "" }) => allocation_id, nameOf: () => "web" })).toEqual([["web (00000001)", "EUR", 6n], ["web (00000002)", "EUR", 3n]]);
});
