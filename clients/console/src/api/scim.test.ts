import { afterEach, expect, it, vi } from "vitest";
import type { ServiceAccount } from "./accounts";
import { client } from "./client";
import { makeScimKey } from "./scim";

afterEach(() => vi.restoreAllMocks());

/** What is sent to make a key in a project that has these service accounts. */
async function sent(service_accounts: ServiceAccount[]) {
  vi.spyOn(client, "GET").mockResolvedValue({ data: { service_accounts } } as never);
  const post = vi.spyOn(client, "POST").mockImplementation((async (path: string) => ({ data: path.endsWith("/api-keys") ? { key: "secret" } : { id: "new" } })) as never);
  const made = await makeScimKey("p", { display_name: "okta" }, { "X-Idempotency-Key": "key" }).catch((problem: unknown) => problem);
  const calls = post.mock.calls as unknown as [string, { params: { path: { service_account_id?: string } } }][];
  vi.restoreAllMocks();
  return { made, to: calls.map(([, { params }]) => params.path.service_account_id ?? "an account") };
}

it("a key for SCIM is of the project's identity-provider, which is made where it is missing and not again while it is disabled", async () => {
  expect(await sent([{ id: "other", slug: "ci" }])).toEqual({ made: { key: "secret" }, to: ["an account", "new"] });
  expect(await sent([{ id: "known", slug: "identity-provider" }])).toEqual({ made: { key: "secret" }, to: ["known"] });
  const { made, to } = await sent([{ id: "known", slug: "identity-provider", disable_time: "2026-11-01T00:00:00Z" }]);
  expect([(made as Error).message, to]).toEqual(["The service account identity-provider is disabled. Enable identity-provider in Service accounts first.", []]);
});
