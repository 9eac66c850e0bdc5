import { expect, it, vi } from "vitest";
import { partOf } from "../../ui/fixture";
import { SetQuota } from "./quotas";

vi.hoisted(() => vi.stubGlobal("matchMedia", () => ({ matches: false, addEventListener: () => {} })));
const kept = await vi.hoisted(async () => (await import("../../ui/fixture")).keptState());
vi.mock("react", async (original) => ({ ...(await original<object>()), useState: kept.useState }));
const api = vi.hoisted(() => ({ put: vi.fn() }));
vi.mock("../../api/catalog", async (original) => ({ ...(await original<object>()), usePutQuota: () => ({ mutateAsync: api.put }) }));
vi.mock("../../api/queries", async (original) => ({ ...(await original<object>()), useSkus: () => ({ data: [] }) }));

it("a quota that somebody else set after one was typed is not overwritten, and is once the reader has seen it", async () => {
  let quotas = { max_allocations: 4, etag: "e1" };
  const drawn = () => kept.drawn(() => SetQuota({ id: "p", name: "vision", quotas }));
  const dialog = () => partOf<{ ready: boolean; run: () => Promise<void>; reset?: (reloaded: boolean) => void }>(drawn(), "run");
  const type = (value: string) => partOf<{ numeric: boolean; onChange: (value: string) => void }>(drawn(), "numeric")?.onChange(value);
  type("8");
  dialog();
  quotas = { max_allocations: 2, etag: "e2" };
  api.put.mockRejectedValueOnce(new Error("stale"));
  await expect(dialog()?.run()).rejects.toThrow("stale");
  expect(api.put).toHaveBeenLastCalledWith({ project_id: "p", sku: "", max: 8, etag: "e1" });
  dialog()?.reset?.(true);
  await dialog()?.run();
  expect(api.put).toHaveBeenLastCalledWith({ project_id: "p", sku: "", max: 8, etag: "e2" });
  dialog()?.reset?.(false);
  expect(dialog()?.ready).toBe(false);
});
