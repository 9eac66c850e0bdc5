import { expect, it } from "vitest";
import type { CapacityBucket } from "../../api/types";
import { columnsOf, seriesOf, summaryOf } from "./history";

const START = Date.parse("2026-01-31T12:00:00Z");
const MINUTE = 60_000;
const bucket = (minute: number, inUse: number, free: number, sku = "a"): CapacityBucket => ({ start_time: new Date(START + minute * MINUTE).toISOString(), region_code: "r", sku, nodes: 1, gpus: 8, gpus_in_use: inUse, gpus_free: free, mean_gpus: 8, mean_gpus_in_use: inUse / 2 });

it("each region and SKU is a series of its own, by name", () => {
  const found = seriesOf([bucket(0, 1, 7, "b"), bucket(0, 2, 6), bucket(1, 3, 5, "b")]);
  expect(found.map(({ sku, buckets }) => [sku, buckets.length])).toEqual([["a", 1], ["b", 2]]);
});

it("minutes in which no scheduler ran are a gap and not a line", () => {
  const { times, inUse, free } = columnsOf([bucket(0, 1, 7), bucket(1, 2, 6), bucket(5, 4, 4)], MINUTE);
  expect(times.map((time) => (time * 1000 - START) / MINUTE)).toEqual([0, 1, 2, 5]);
  expect(inUse).toEqual([1, 2, null, 4]);
  expect(free).toEqual([7, 6, null, 4]);
});

it("the latest figures, the extremes, and the mean of the samples rather than of their maxima", () => {
  expect(summaryOf([bucket(0, 2, 6), bucket(1, 6, 1), bucket(2, 4, 4)])).toEqual({ gpus: 8, inUse: 4, free: 4, peakInUse: 6, lowestFree: 1, used: 25 });
  expect(summaryOf([]).used).toBeUndefined();
  expect(summaryOf([]).lowestFree).toBe(0);
});
