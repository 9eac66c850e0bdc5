import { expect, it, vi } from "vitest";
import { partOf } from "../../ui/fixture";
import { DeleteRegion } from "./regions";

const kept = await vi.hoisted(async () => (await import("../../ui/fixture")).keptState());
vi.mock("react", async (original) => ({ ...(await original<object>()), useState: kept.useState }));
const api = vi.hoisted(() => ({ remove: vi.fn() }));
vi.mock("../../api/catalog", async (original) => ({ ...(await original<object>()), useDeleteRegion: () => ({ mutateAsync: api.remove }) }));

it("a region is deleted as it was read, with a reason for the record", async () => {
  const dialog = () => kept.drawn(() => DeleteRegion({ region: { code: "eu-wset", display_name: "Europe", etag: "r1" } }));
  const reason = partOf<{ value: string; onChange: (text: string) => void }>(dialog(), "onChange");
  reason?.onChange(" a slip ");
  const confirm = partOf<{ title: string; needs: string; danger: boolean; run: () => Promise<unknown> }>(dialog(), "run");
  expect([confirm?.title, confirm?.needs, confirm?.danger]).toEqual(["Delete Europe?", "manage", true]);
  api.remove.mockRejectedValueOnce(new Error("in use"));
  await expect(confirm?.run()).rejects.toThrow("in use");
  expect(api.remove).toHaveBeenCalledWith({ code: "eu-wset", etag: "r1", reason: "a slip" });
});
