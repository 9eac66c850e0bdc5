import { QueryClient } from "@tanstack/react-query";
import { expect, it, vi } from "vitest";
import { settingsKey } from "../../api/scim";
import { partOf } from "../../ui/fixture";
import { SetScim } from "./scim";
import { type Draft, draftOf } from "./scim-rules";

const kept = await vi.hoisted(async () => (await import("../../ui/fixture")).keptState());
vi.mock("react", async (original) => ({ ...(await original<object>()), useState: kept.useState }));
const api = vi.hoisted(() => ({ put: vi.fn() }));
vi.mock("../../api/scim", async (original) => ({ ...(await original<object>()), usePutScimSettings: () => ({ mutateAsync: api.put }) }));
const cache = vi.hoisted(() => ({ queries: undefined as unknown }));
vi.mock("@tanstack/react-query", async (original) => ({ ...(await original<object>()), useQueryClient: () => cache.queries }));

it("what somebody else set meanwhile is not overwritten, and the form begins anew with it", async () => {
  const queries = new QueryClient();
  cache.queries = queries;
  const dialog = () => kept.drawn(() => SetScim({ organisation: "acme", name: "acme" }));
  const form = () => partOf<{ draft: Draft | undefined; change: (draft: Draft) => void }>(dialog(), "draft");
  const read = { issuer: "https://old.example", subject_attribute: "user_name" as const, etag: "s1" };
  form()?.change({ ...draftOf(read), issuer: " https://mine.example " });
  queries.setQueryData(settingsKey("acme"), { ...read, issuer: "https://theirs.example", etag: "s2" });
  const confirm = partOf<{ ready: boolean; run: () => Promise<void>; reset?: () => void }>(dialog(), "run");
  expect(confirm?.ready).toBe(true);
  api.put.mockRejectedValueOnce(new Error("stale"));
  await expect(confirm?.run()).rejects.toThrow("stale");
  expect(api.put).toHaveBeenCalledWith({ issuer: "https://mine.example", subject_attribute: "user_name", etag: "s1" });
  expect(form()?.draft).toBeDefined();
  confirm?.reset?.();
  expect(form()?.draft).toBeUndefined();
});
