import { expect, it, vi } from "vitest";
import { Problem } from "../api/problem";
import { signInAs } from "./fixture";
import type { UsableIssuer } from "./issuers";
import { ensureGood, keepGood, wake } from "./lifecycle";
import { beginSession, chooseProject, currentSession, endedBecause, learnCaller } from "./session";

const provider = vi.hoisted(() => ({ refresh: vi.fn() }));
vi.mock("./oidc", () => provider);
const caller = vi.hoisted(() => ({ whoIs: vi.fn() }));
vi.mock("./caller", () => caller);

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

/** What becomes of a session whose token is due to be renewed, where the API says this of it. */
async function renewed(refusal?: unknown) {
  vi.stubGlobal("navigator", {});
  vi.stubGlobal("window", globalThis);
  caller.whoIs.mockImplementation(() => (refusal ? Promise.reject(refusal) : Promise.resolve({})));
  provider.refresh.mockReset().mockResolvedValue({ token: "new", expires: Date.now() + 60_000, source: { ...source, refreshToken: "second" } });
  signInAs("unspecified", { token: "old", renewAt: 0, source: { issuer: "https://login.example.com", clientId: "console", parameters: {}, refreshToken: "first", idToken: "i" } });
  const stop = keepGood(currentSession()!);
  await vi.waitFor(() => expect(currentSession()?.token).not.toBe("old"));
  stop();
  return [currentSession()?.token, endedBecause(), provider.refresh.mock.calls.length];
}

it("a sign-in that has ended at its provider is not renewed", async () => {
  const refused = (reason: string, status = 401) => new Problem({ status, message: "no", reason });
  expect(await renewed(refused("CREDENTIAL_INVALID"))).toEqual([undefined, "refused", 0]);
  for (const other of [undefined, refused("CREDENTIAL_EXPIRED"), refused("OVERLOADED", 503), refused("PERMISSION_DENIED", 403), new Error("no network")]) {
    expect(await renewed(other)).toEqual(["new", undefined, 1]);
  }
});

it("what the API says of one session does not end the one that took its place meanwhile", async () => {
  vi.stubGlobal("navigator", {});
  // one that is asked about alone, and one that is due to be renewed
  for (const renewAt of [Number.MAX_SAFE_INTEGER, 0]) {
    signInAs("unspecified", { token: `old ${renewAt}`, renewAt, source: { issuer: "https://login.example.com", clientId: "console", parameters: {}, refreshToken: "first", idToken: "i" } });
    caller.whoIs.mockReset().mockImplementation(() => {
      signInAs("unspecified", { token: "newer" });
      return Promise.reject(new Problem({ status: 401, message: "no", reason: "CREDENTIAL_INVALID" }));
    });
    await wake();
    expect([caller.whoIs.mock.calls.length, currentSession()?.token]).toEqual([1, "newer"]);
  }
});
