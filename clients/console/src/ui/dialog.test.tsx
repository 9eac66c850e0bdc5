import { expect, it, vi } from "vitest";
import { Confirm } from "./dialog";
import { partOf } from "./fixture";

const kept = await vi.hoisted(async () => (await import("./fixture")).keptState());
vi.mock("react", async (original) => ({ ...(await original<object>()), useState: kept.useState }));
vi.mock("../session/session", async (original) => ({ ...(await original<object>()), useSession: () => undefined }));

it("what was typed is forgotten when the dialog opens, and when all was loaded anew after somebody else's change", async () => {
  const reset = vi.fn();
  const run = vi.fn().mockRejectedValue(new Error("stale"));
  const drawn = () => kept.drawn(() => Confirm({ trigger: null, title: "Rename", children: null, action: "Rename", reset, run }));
  const failure = () => partOf<{ error: unknown; reloaded: () => void }>(drawn(), "reloaded");
  const turn = (open: boolean) => partOf<{ onOpenChange: (open: boolean) => void }>(drawn(), "onOpenChange")?.onOpenChange(open);
  turn(true);
  expect(reset).toHaveBeenCalledTimes(1);
  await partOf<{ onSubmit: (event: object) => Promise<void> }>(drawn(), "onSubmit")?.onSubmit({ preventDefault: () => undefined, stopPropagation: () => undefined });
  expect([run.mock.calls.length, reset.mock.calls.length, failure()?.error]).toEqual([1, 1, new Error("stale")]);
  failure()?.reloaded();
  expect([reset.mock.calls.length, failure()]).toEqual([2, undefined]);
  turn(false);
  expect(reset.mock.calls).toEqual([[false], [true]]);
});

it("the dialog stays while its call runs, so that a failure is seen", async () => {
  kept.forget();
  let fail = (_: Error): void => undefined;
  const run = () => new Promise<void>((_, reject) => (fail = reject));
  const drawn = () => kept.drawn(() => Confirm({ trigger: null, title: "Delete?", children: null, action: "Delete", run }));
  const dialog = () => partOf<{ open: boolean; onOpenChange: (open: boolean) => void }>(drawn(), "onOpenChange");
  dialog()?.onOpenChange(true);
  const sent = partOf<{ onSubmit: (event: object) => Promise<void> }>(drawn(), "onSubmit")?.onSubmit({ preventDefault: () => undefined, stopPropagation: () => undefined });
  dialog()?.onOpenChange(false);
  expect(dialog()?.open).toBe(true);
  fail(new Error("refused"));
  await sent;
  expect(partOf<{ error: unknown; reloaded: () => void }>(drawn(), "reloaded")?.error).toEqual(new Error("refused"));
  dialog()?.onOpenChange(false);
  expect(dialog()?.open).toBe(false);
});
