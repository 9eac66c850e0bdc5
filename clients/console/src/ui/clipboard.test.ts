import { expect, it, vi } from "vitest";
import { toClipboard } from "./basics";

it("a page without a clipboard is told that nothing was copied", async () => {
  const writeText = vi.fn(async () => undefined);
  vi.stubGlobal("navigator", { clipboard: { writeText } });
  await toClipboard("secret");
  expect(writeText).toHaveBeenCalledWith("secret");
  vi.stubGlobal("navigator", {});
  await expect(toClipboard("secret")).rejects.toThrow();
});
