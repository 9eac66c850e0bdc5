import { expect, it } from "vitest";
import { notOffered } from "./skus";

it("a SKU that is disabled says what is still reserved of it", () => {
  expect(notOffered({})).toBe("Not offered");
  expect(notOffered({ reserved_gpus: 1 })).toBe("Not offered, 1 GPU reserved");
  expect(notOffered({ reserved_gpus: 16 })).toBe("Not offered, 16 GPUs reserved");
});
