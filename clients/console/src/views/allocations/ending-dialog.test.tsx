import { QueryClient } from "@tanstack/react-query";
import type { ReactElement } from "react";
import { expect, it, vi } from "vitest";
import { client } from "../../api/client";
import { partOf } from "../../ui/fixture";
import { Ending } from "./ending";

const kept = await vi.hoisted(async () => (await import("../../ui/fixture")).keptState());
vi.mock("react", async (original) => ({ ...(await original<object>()), useState: kept.useState }));
const cache = vi.hoisted(() => ({ queries: undefined as unknown }));
vi.mock("@tanstack/react-query", async (original) => ({ ...(await original<object>()), useQueryClient: () => cache.queries }));

it("protection that somebody else set meanwhile is not overwritten, and the form begins anew with it", async () => {
  cache.queries = new QueryClient();
  const patch = vi.spyOn(client, "PATCH").mockRejectedValue(new Error("stale"));
  let allocation = { id: "a", termination_protection: false, auto_release_time: "2099-01-01T00:00:00Z", etag: "a1" };
  const drawn = () => kept.drawn(() => Ending({ allocation }));
  const box = () => partOf<{ checked: boolean; onChange: (event: object) => void }>(drawn(), "checked");
  expect(box()?.checked).toBe(false);
  box()?.onChange({ target: { checked: true } });
  allocation = { ...allocation, auto_release_time: "2098-01-01T00:00:00Z", etag: "a2" };
  const dialog = () => partOf<{ run: () => Promise<void>; reset?: () => void }>(drawn(), "run");
  await expect(dialog()?.run()).rejects.toThrow("stale");
  expect(patch).toHaveBeenCalledWith("/api/v1/allocations/{allocation_id}", { params: { path: { allocation_id: "a" } }, body: { termination_protection: true, no_auto_release: true, etag: "a1" } });
  dialog()?.reset?.();
  expect(box()?.checked).toBe(false);
  const field = partOf<{ hint: string; children: (of: object) => ReactElement<{ value: string }> }>(drawn(), "hint")?.children({});
  expect(field?.props.value).toMatch(/^209[78]-/);
});
