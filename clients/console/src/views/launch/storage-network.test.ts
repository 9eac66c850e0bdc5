import { expect, it } from "vitest";
import { givenBy } from "./storage-network";

const sku = (capacity_shape: "gpu_slice" | "baremetal") => ({ code: "a", slot_class: "a", allowed_gpu_counts: [1], profile: {}, capacity_shape });

it("h_26_a_launch_says_which_disks_and_network_its_sku_gives", () => {
  const of = (shape: "gpu_slice" | "baremetal", gpus: number) => Object.fromEntries(givenBy(sku(shape), gpus));
  expect(of("gpu_slice", 1).Disks).toMatch(/^1 dedicated disk, one per GPU/);
  expect(of("gpu_slice", 4).Disks).toMatch(/^4 dedicated disks, one per GPU/);
  expect(of("gpu_slice", 4).Network).toBe("One private IPv4 address and one SSH port");
  expect(of("baremetal", 8).Disks).toMatch(/^All disks of the node/);
});
