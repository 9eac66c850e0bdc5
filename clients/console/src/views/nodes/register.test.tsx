import { expect, it, vi } from "vitest";
import { partOf } from "../../ui/fixture";
import { RegisterNode } from "./register";

const kept = await vi.hoisted(async () => (await import("../../ui/fixture")).keptState());
vi.mock("react", async (original) => ({ ...(await original<object>()), useState: kept.useState }));
vi.mock("../../session/rights", async (original) => ({ ...(await original<object>()), useMay: () => true }));

vi.hoisted(() => vi.stubGlobal("matchMedia", () => ({ matches: false, addEventListener: () => {} })));

it("the dialog stays while a token is on its way or not yet saved, whatever would close it", () => {
  const drawn = () => kept.drawn(RegisterNode);
  const dialog = () => partOf<{ open: boolean; onOpenChange: (open: boolean) => void }>(drawn(), "onOpenChange");
  const form = () => partOf<{ done: () => void; hold: (held: boolean) => void }>(drawn(), "hold");
  dialog()?.onOpenChange(true);
  form()?.hold(true);
  dialog()?.onOpenChange(false);
  expect(dialog()?.open).toBe(true);
  form()?.done();
  expect(dialog()?.open).toBe(false);
  // the next one, before anything was sent
  dialog()?.onOpenChange(true);
  form()?.hold(false);
  dialog()?.onOpenChange(false);
  expect(dialog()?.open).toBe(false);
});
