import { afterAll, beforeEach, expect, it, vi } from "vitest";
import { signInAs } from "./fixture";
import { completeSignIn } from "./lifecycle";
import { type Session, currentSession, endSession, firstProject, learnCaller } from "./session";

const provider = vi.hoisted(() => ({ complete: vi.fn() }));
vi.mock("./oidc", () => provider);
const caller = vi.hoisted(() => ({ whoIs: vi.fn() }));
vi.mock("./caller", () => caller);

/** Another tab of the browser, by the channel that they really have. */
const other = new BroadcastChannel("gpuaas.session");
afterAll(() => other.close());
const heard = () => new Promise<Session>((resolve) => other.addEventListener("message", (event) => resolve((event as MessageEvent<{ session: Session }>).data.session), { once: true }));

const source = { issuer: "https://login.example.com", clientId: "console", parameters: {}, refreshToken: "r", idToken: "i" };
const HOUR_MS = 3_600_000;

/** What this tab has after the other one told of its session. */
async function told(change: Partial<Session>): Promise<Session | undefined> {
  const session = { ...currentSession(), ...change };
  const answer = heard();
  other.postMessage({ kind: "session", session });
  // messages come in order
  other.postMessage({ kind: "request" });
  await answer;
  return currentSession();
}

beforeEach(() => {
  vi.stubGlobal("sessionStorage", { getItem: () => null, setItem: () => undefined, removeItem: () => undefined });
  vi.stubGlobal("history", { replaceState: vi.fn() });
});

it("a later sign-in wins over a session that only expires later, and a renewal over what it renews", async () => {
  const signedIn = Date.now();
  const expires = signedIn + HOUR_MS;
  signInAs("admin", { source, signedIn, expires });
  expect((await told({ token: "weaker", signedIn: signedIn - 1, expires: expires + HOUR_MS }))?.token).toBe("a.b.c");
  expect((await told({ token: "unknown", signedIn: undefined, expires: expires + HOUR_MS }))?.token).toBe("a.b.c");
  expect((await told({ token: "older", expires: expires - 1 }))?.token).toBe("a.b.c");
  expect((await told({ token: "renewed", expires: expires + 1 }))?.token).toBe("renewed");
  expect((await told({ token: "stronger", signedIn: signedIn + 1, expires: expires - HOUR_MS / 2 }))?.token).toBe("stronger");
  for (const another of [{ principal: "user:b" }, { source: { ...source, issuer: "https://other.example.com" } }]) {
    expect((await told({ ...another, token: "another", signedIn: signedIn + 2 }))?.token).toBe("stronger");
  }
});

it("a tab that takes the session of another one keeps its project, while that is one's own", async () => {
  const projects = [{ id: "p", slug: "p" }, { id: "q", slug: "q" }, { id: "r", slug: "r" }];
  signInAs("admin", { source, projects, project: "q", signedIn: 1 });
  expect((await told({ token: "d", project: "r", signedIn: 2 }))?.project).toBe("q");
  expect((await told({ token: "e", project: "r", signedIn: 3, projects: projects.slice(0, 1) }))?.project).toBe("");
});

it("who gets into a second project stays in the first one", async () => {
  const [first, second] = [{ id: "z", slug: "z" }, { id: "a", slug: "a" }];
  signInAs("unspecified", { source, projects: [first], project: "", signedIn: 1 });
  expect((await told({ token: "d", project: "a", signedIn: 2, projects: [second, first] }))?.project).toBe("z");
  signInAs("unspecified", { token: "t", projects: [first], project: "" });
  learnCaller({ projects: [first] }, "t");
  expect(currentSession()?.project).toBe("");
  learnCaller({ projects: [second, first] }, "t");
  expect(currentSession()?.project).toBe("z");
  learnCaller({ projects: [second] }, "t");
  expect(currentSession()?.project).toBe("");
});

it("a repeated sign-in is shared with the other tabs", async () => {
  signInAs("admin", { source, signedIn: 1 });
  provider.complete.mockResolvedValue({ token: "d.e.f", expires: Date.now() + HOUR_MS, source });
  caller.whoIs.mockResolvedValue({ principal: "user:a", platformRole: "admin", projects: [], organisations: [] });
  const next = heard();
  await completeSignIn();
  expect(await next).toMatchObject({ token: "d.e.f", principal: "user:a" });
  expect((await next).signedIn).toBeGreaterThan(1);
});

it("who signs in again after the end of a session is in the project that it was in", () => {
  const kept = new Map<string, string>();
  vi.stubGlobal("sessionStorage", { getItem: (key: string) => kept.get(key) ?? null, setItem: (key: string, value: string) => kept.set(key, value), removeItem: (key: string) => kept.delete(key) });
  const projects = [{ id: "p", slug: "p" }, { id: "q", slug: "q" }];
  signInAs("unspecified", { projects, project: "q" });
  endSession("expired");
  expect([firstProject("user:a", projects), firstProject("user:b", projects), firstProject("user:a", projects.slice(0, 1))]).toEqual(["q", "p", ""]);
  signInAs("unspecified", { projects, project: "q" });
  endSession("signed_out");
  expect(firstProject("user:a", projects)).toBe("p");
  kept.set("gpuaas.project", "{");
  expect(firstProject("user:a", projects)).toBe("p");
});
