import { expect, it } from "vitest";
import type { Image } from "../../api/types";
import { rescueImages } from "./rescue-images";

it("p9_a_rescue_offers_active_images_of_the_sku_and_never_the_own_one", () => {
  const image = (slug: string, status: NonNullable<Image["status"]>, skus: string[]): Image => ({ slug, status, compatible_skus: skus });
  const images = [image("own", "active", ["a"]), image("tools", "active", ["a", "b"]), image("old", "disabled", ["a"]), image("other", "active", ["b"])];
  expect(rescueImages(images, { config: { sku: "a", image: "own" } }).map(({ slug }) => slug)).toEqual(["tools"]);
  expect(rescueImages(images, {})).toEqual([]);
});
