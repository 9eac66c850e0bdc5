import { expect, it, vi } from "vitest";
import type { UsableIssuer } from "./issuers";
import { ensureGood } from "./lifecycle";
import { beginSession, chooseProject, currentSession, learnCaller } from "./session";

const provider = vi.hoisted(() => ({ refresh: vi.fn() }));
vi.mock("./oidc", () => provider);

const source = { issuer: {} as UsableIssuer, refreshToken: "first" };
const projects = [{ id: "a", slug: "a", role: "viewer" as const }, { id: "b", slug: "b", role: "owner" as const }];

it("a token that was renewed is kept with what changed of the session meanwhile", async () => {
  vi.stubGlobal("navigator", {});
  beginSession({ token: "old", principal: "user:ann", platformRole: undefined, projects: [], organisations: [], project: "", expires: 1, renewAt: 1, source } as unknown as Parameters<typeof beginSession>[0]);
  provider.refresh.mockImplementation(async () => {
    learnCaller({ platformRole: undefined, projects, organisations: [] } as unknown as Parameters<typeof learnCaller>[0], "old");
    chooseProject("b");
    return { token: "new", expires: Date.now() + 60_000, source: { ...source, refreshToken: "second" } };
  });
  await ensureGood();
  const session = currentSession();
  expect([session?.token, session?.project, session?.projects.length, session?.source?.refreshToken]).toEqual(["new", "b", 2, "second"]);
});
