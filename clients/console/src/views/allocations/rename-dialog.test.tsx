import { QueryClient } from "@tanstack/react-query";
import { expect, it, vi } from "vitest";
import { client } from "../../api/client";
import { partOf } from "../../ui/fixture";
import { Rename } from "./rename";

const kept = await vi.hoisted(async () => (await import("../../ui/fixture")).keptState());
vi.mock("react", async (original) => ({ ...(await original<object>()), useState: kept.useState }));
const cache = vi.hoisted(() => ({ queries: undefined as unknown }));
vi.mock("@tanstack/react-query", async (original) => ({ ...(await original<object>()), useQueryClient: () => cache.queries }));

it("a name that somebody else gave meanwhile is not overwritten, and the form begins anew with it", async () => {
  cache.queries = new QueryClient();
  const patch = vi.spyOn(client, "PATCH").mockRejectedValue(new Error("stale"));
  let allocation = { id: "a", display_name: "Run 7", etag: "a1" };
  const dialog = () => kept.drawn(() => Rename({ allocation }));
  const field = () => partOf<{ value: string; onChange: (value: string) => void }>(dialog(), "onChange");
  expect(field()?.value).toBe("Run 7");
  field()?.onChange("Mine");
  // a watch tells of it
  allocation = { id: "a", display_name: "Theirs", etag: "a2" };
  field()?.onChange("Mine, too ");
  const confirm = partOf<{ run: () => Promise<void>; reset?: () => void }>(dialog(), "run");
  await expect(confirm?.run()).rejects.toThrow("stale");
  expect(patch).toHaveBeenCalledWith("/api/v1/allocations/{allocation_id}", { params: { path: { allocation_id: "a" } }, body: { display_name: "Mine, too", etag: "a1" } });
  confirm?.reset?.();
  expect(field()?.value).toBe("Theirs");
});
