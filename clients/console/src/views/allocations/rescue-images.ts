/** Images that an allocation can be rescued with. Pure. */
import type { Allocation, Image } from "../../api/types";

/** Active ones that go with its SKU, without its own: its disk would look the same as the rescue's to the rescue system. */
export function rescueImages(images: Image[], { config }: Pick<Allocation, "config">): Image[] {
  const sku = config?.sku ?? "";
  return images.filter(({ slug, status, compatible_skus = [] }) => status === "active" && slug !== config?.image && compatible_skus.includes(sku));
}
