import { expect, it } from "vitest";
import type { Image, Sku } from "../api/types";
import { uncheckedFor } from "./unchecked";

const sku = (code: string, capacity_shape: string, lab = false) => ({ code, capacity_shape, lab, allowed_gpu_counts: [1] }) as Sku;
const skus = [sku("h200", "gpu_slice"), sku("metal", "baremetal"), sku("lab", "gpu_slice", true)];
const image = (readiness_checks: Image["readiness_checks"], ...compatible_skus: string[]): Image => ({ slug: "i", readiness_checks, compatible_skus });

it("inc_24_an_image_for_gpus_without_readiness_checks_is_marked", () => {
  expect(uncheckedFor(image([], "h200", "metal", "lab", "gone"), skus)).toEqual(["h200"]);
  expect(uncheckedFor(image(undefined, "h200"), skus)).toEqual(["h200"]);
  expect(uncheckedFor(image([{ name: "nvidia-smi", command: "nvidia-smi" }], "h200"), skus)).toEqual([]);
  expect(uncheckedFor(image([], "metal", "lab"), skus)).toEqual([]);
});
