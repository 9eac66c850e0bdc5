import { expect, it } from "vitest";
import { outOfServiceOf, partsOfCounts } from "./counts";

it("the parts add up to what is delivered", () => {
  const parts = partsOfCounts({ delivered: "16", healthy: "14", reserved: "9", active: "6" });
  expect(parts.map(({ value }) => value)).toEqual([6, 3, 5, 0, 2]);
  expect(partsOfCounts(undefined).every(({ value }) => value === 0)).toBe(true);
});

it("GPUs of nodes that take no launches are out of service with the reason, not free", () => {
  const pool = { region_code: "eu-1", hardware_type: "h200_sxm" };
  const gpus = { delivered: "4", healthy: "4", reserved: "1", active: "1" };
  const nodes = [
    { ...pool, id: "1", hostname: "gpu-01", gpus, reason: "" },
    { ...pool, id: "2", hostname: "gpu-02", gpus, reason: "draining: new fans" },
    { ...pool, id: "3", hostname: "gpu-03", gpus: { ...gpus, reserved: "4" }, reason: "cordoned: new cables" },
    { ...pool, id: "4", hostname: "gpu-04", gpus, reason: "maintenance: firmware" },
    { ...pool, hardware_type: "l40s", id: "5", hostname: "gpu-05", gpus, reason: "cordoned: another pool" },
  ];
  const held = outOfServiceOf(pool, nodes);
  expect(held.map(({ hostname, gpus: count, reason }) => [hostname, count, reason])).toEqual([
    ["gpu-02", 3, "draining: new fans"],
    ["gpu-04", 3, "maintenance: firmware"],
  ]);
  const parts = (counts: object) => Object.fromEntries(partsOfCounts(counts, held).map(({ label, value }) => [label, value]));
  expect(parts({ delivered: "16", healthy: "16", reserved: "7", active: "3" })).toEqual({ active: 3, reserved: 4, free: 3, "out of service": 6, "not healthy": 0 });
  // of another moment: never more than there is
  expect(parts({ delivered: "16", healthy: "9", reserved: "7", active: "3" })).toEqual({ active: 3, reserved: 4, free: 0, "out of service": 2, "not healthy": 7 });
});
