import { expect, it, vi } from "vitest";
import type { Tenant } from "../../api/tenancy";
import { partOf } from "../../ui/fixture";
import { Row } from "./members";

vi.hoisted(() => vi.stubGlobal("matchMedia", () => ({ matches: false, addEventListener: () => {} })));
const api = vi.hoisted(() => ({ learnRoles: vi.fn(async () => undefined), send: vi.fn(async (_: unknown) => undefined) }));
vi.mock("../../session/lifecycle", async (original) => ({ ...(await original<object>()), learnRoles: api.learnRoles }));
vi.mock("../../api/tenancy", async (original) => ({
  ...(await original<object>()),
  useChangeMember: () => ({ error: null, isPending: false, reset: () => undefined, mutate: (change: unknown, { onSuccess }: { onSuccess: () => void }) => void api.send(change).then(onSuccess) }),
  useRemoveMember: () => ({ mutateAsync: api.send }),
}));

const tenant: Tenant = { kind: "project", id: "p" };
const rowOf = (own: boolean) => Row({ member: { member_id: "m", principal: "user:a", role: "owner" }, tenant, own, manages: true, before: undefined });

it("who leaves, or changes the own role, has the rights that are left at once", async () => {
  for (const own of [false, true]) {
    api.learnRoles.mockClear();
    await partOf<{ run: () => Promise<unknown> }>(rowOf(own), "run")?.run();
    expect(api.learnRoles).toHaveBeenCalledTimes(own ? 1 : 0);
    partOf<{ onChange: (event: object) => void }>(rowOf(own), "onChange")?.onChange({ target: { value: "viewer" } });
    await vi.waitFor(() => expect(api.send).toHaveBeenLastCalledWith(expect.objectContaining({ role: "viewer" })));
    await vi.waitFor(() => expect(api.learnRoles).toHaveBeenCalledTimes(own ? 2 : 0));
  }
});
