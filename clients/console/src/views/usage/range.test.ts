import { expect, it } from "vitest";
import { grouped } from "./groups";
import { CSV_HEADER, costHeader, costRow, costRows, csvRow, dayOf, fieldOf, plain, rangeOf, within } from "./range";
import { buckets } from "../../lib/usage";

const at = (day: number, hour = 0) => new Date(2026, 0, day, hour).getTime();
const interval = (start: number, hours: number, units: string, sku = "a") => ({
  start_time: new Date(start).toISOString(),
  microseconds: String(hours * 3_600_000_000),
  gpu_count: 1,
  sku,
  amount: { currency_code: "EUR", units, nanos: 0 },
});

it("dates are days of the reader's zone, the last one included", () => {
  expect(dayOf("2026-01-05")).toBe(at(5));
  expect(fieldOf(at(5, 13))).toBe("2026-01-05");
  for (const wrong of ["", "2026-02-30", "5.1.2026"]) expect(dayOf(wrong)).toBeUndefined();
  expect(rangeOf("custom", "2026-01-05", "2026-01-09", at(20))).toEqual({ from: at(5), to: at(10), size: "day" });
  expect(rangeOf("custom", "2026-01-05", "2026-01-05", at(20))?.size).toBe("hour");
  expect(rangeOf("custom", "2026-01-09", "2026-01-05", at(20))).toBeUndefined();
  expect(rangeOf("month", "", "", at(20, 7))).toEqual({ from: at(1), to: at(20, 7), size: "day" });
});

it("of an interval that crosses the range, only the part in it counts", () => {
  const parts = within([interval(at(4, 22), 4, "4"), interval(at(1), 1, "9")], { from: at(5), to: at(6), size: "day" });
  expect(parts.map(({ amount }) => amount.nanos)).toEqual([2_000_000_000n]);
});

it("of a range that begins within a day, chart, groups and file have the same money", () => {
  // 10 days at 1 an hour, and one that ended on the range's first day, before the range
  const intervals = [interval(at(1), 240, "240"), interval(at(3, 1), 2, "2")];
  const ranges: [string, number, bigint][] = [
    ["7 days", at(10, 15), 168n],
    ["30 days", at(10, 15), 9n * 24n + 15n + 2n],
    ["24 hours", at(10, 15) + 1_234_567, 24n],
  ];
  for (const [choice, now, hours] of ranges) {
    const range = rangeOf(choice, "", "", now)!;
    const parts = within(intervals, range);
    const data = buckets(intervals, "EUR", range.size, range.from, range.to);
    const chart = data.reduce((total, { nanos }) => total + nanos, 0n);
    const shown = grouped(parts, { idOf: ({ sku = "" }) => sku, nameOf: ({ sku = "" }) => sku });
    const column = CSV_HEADER.indexOf("amount_in_range");
    const file = parts.reduce((total, part) => total + BigInt(csvRow(part, "vision", "web")[column]!.replace(".", "")), 0n);
    expect([chart, shown[0]?.amount.nanos, file], choice).toEqual([hours * 1_000_000_000n, hours * 1_000_000_000n, hours * 1_000_000_000n]);
    const time = data.reduce((total, { gpuMicroseconds }) => total + gpuMicroseconds, 0n);
    expect(time, choice).toBe(hours * 3_600_000_000n);
  }
});

it("a file has every digit", () => {
  expect(plain({ currency: "EUR", nanos: -1n })).toBe("-0.000000001");
  const [part] = within([interval(at(5), 1, "2")], { from: at(5), to: at(6), size: "day" });
  expect(csvRow(part!, "vision", "web")).toContain("2.000000000");
});

it("a file says what of the time is credited, so that its columns add up", () => {
  // 2 hours at 1.5 an hour, half an hour of them credited
  const credited = { ...interval(at(5), 2, "2"), credited_microseconds: "1800000000", price_per_gpu_hour: { currency_code: "EUR", units: "1", nanos: 500_000_000 } };
  credited.amount = { currency_code: "EUR", units: "2", nanos: 250_000_000 };
  const [part] = within([credited], { from: at(5), to: at(6), size: "day" });
  const row = csvRow(part!, "vision", "web");
  const number = (column: string) => Number(row[CSV_HEADER.indexOf(column)]);
  expect(row).toHaveLength(CSV_HEADER.length);
  expect(number("credited_seconds")).toBe(1800);
  expect(((number("seconds") - number("credited_seconds")) / 3600) * number("price_per_gpu_hour")).toBe(number("amount"));
});

it("the twin of a chart has what cost something, the newest first, and its file every day", () => {
  const data = buckets([interval(at(5), 2, "3"), interval(at(7), 1, "1")], "EUR", "day", at(4), at(8));
  expect(costRows(data).map(({ start, nanos }) => [start, nanos])).toEqual([[at(7), 1_000_000_000n], [at(5), 3_000_000_000n]]);
  expect(data.map((bucket) => costRow(bucket, "day", "EUR").join())).toEqual([
    "2026-01-04,0.000000,0.000000000,EUR",
    "2026-01-05,2.000000,3.000000000,EUR",
    "2026-01-06,0.000000,0.000000000,EUR",
    "2026-01-07,1.000000,1.000000000,EUR",
  ]);
  expect(costHeader("day")).toEqual(["day", "gpu_hours", "amount", "currency"]);
  expect(costRow(data[0]!, "hour", "EUR")[0]).toBe(new Date(at(4)).toISOString());
});
