import { expect, it } from "vitest";
import { disabledText } from "./skus";

it("a SKU that is disabled says what is still reserved of it", () => {
  expect(disabledText({})).toBe("Disabled");
  expect(disabledText({ reserved_gpus: 1 })).toBe("Disabled, 1 GPU reserved");
  expect(disabledText({ reserved_gpus: 16 })).toBe("Disabled, 16 GPUs reserved");
});
