import { renderToStaticMarkup } from "react-dom/server";
import { beforeEach, expect, it, vi } from "vitest";
import { Problem } from "../api/problem";
import { SignInFailure } from "../session/failure";
import { signInAs } from "../session/fixture";
import { stepUpOf } from "../session/issuers";
import { completeSignIn, signInAgain } from "../session/lifecycle";
import { keepPending } from "../session/pending";
import { currentSession, endSession } from "../session/session";
import { ProblemNote } from "./problem";

const provider = vi.hoisted(() => ({ begin: vi.fn(), complete: vi.fn() }));
vi.mock("../session/oidc", () => provider);
const api = vi.hoisted(() => ({ request: vi.fn() }));
vi.mock("../api/client", async (original) => ({ ...(await original<object>()), ...api }));
const caller = vi.hoisted(() => ({ whoIs: vi.fn() }));
vi.mock("../session/caller", () => caller);

const source = { issuer: "https://login.example.com", clientId: "console", parameters: {}, refreshToken: "r", idToken: "i" };
const issuer = { issuer: source.issuer, display_name: "Acme", console_client_id: "console", scopes: ["openid"], parameters: {}, development: false, admin_acr_values: ["urn:gold", "urn:silver"] };
const refused = new Problem({ status: 403, message: "This needs a sign-in with a second factor. Sign in again with one.", reason: "SECOND_FACTOR_REQUIRED" });
const shown = (problem: Problem) => renderToStaticMarkup(<ProblemNote error={problem} />);

beforeEach(() => {
  const kept = new Map<string, string>();
  vi.stubGlobal("sessionStorage", { getItem: (key: string) => kept.get(key) ?? null, setItem: (key: string, value: string) => kept.set(key, value), removeItem: (key: string) => kept.delete(key) });
  vi.stubGlobal("location", { pathname: "/admin/nodes/1", search: "?tab=slots", origin: "https://console.example.com" });
  vi.stubGlobal("history", { replaceState: vi.fn() });
  signInAs("admin", { source });
});

it("a refusal for want of a second factor says what one is and offers to sign in again", () => {
  const text = shown(refused);
  for (const part of ["second factor, such as a security key", "Sign in again</button>", "SECOND_FACTOR_REQUIRED"]) expect(text).toContain(part);
  expect(shown(new Problem({ status: 403, message: "no", reason: "PERMISSION_DENIED" }))).not.toContain("Sign in again");
  signInAs("admin");
  expect(shown(refused)).not.toContain("<button");
  expect(shown(refused)).toContain("You are signed in with a token.");
});

it("the request to sign in again asks for another authentication, and for what the platform demands", async () => {
  api.request.mockResolvedValue({ issuers: [{ ...issuer, console_client_id: "another" }, issuer] });
  await signInAgain();
  expect(provider.begin).toHaveBeenCalledWith(issuer, "/admin/nodes/1?tab=slots", { prompt: "login", acr_values: "urn:gold urn:silver" });
  expect(stepUpOf({})).toEqual({ prompt: "login" });
  for (const [prompt, asked] of [["consent", "login consent"], ["login", "login"], ["none", "login"]] as const) expect(stepUpOf({ parameters: { prompt } })).toEqual({ prompt: asked });
  api.request.mockResolvedValue({ issuers: [] });
  await expect(signInAgain()).rejects.toThrow(SignInFailure);
});

const pending = { issuer: source.issuer, clientId: "console", parameters: {}, state: "s", nonce: "n", verifier: "v", returnTo: "/admin/nodes/1?tab=slots" };
const me = { principal: "user:a", platformRole: "admin", projects: [], organisations: [] };
const given = (token: string) => ({ token, expires: Date.now() + 60_000, source });

it("who cancels is still signed in and back at the page, and without a session the failure is told", async () => {
  keepPending(pending);
  provider.complete.mockRejectedValue(new SignInFailure("The sign-in was refused or cancelled.", true));
  await completeSignIn();
  expect(currentSession()?.token).toBe("a.b.c");
  expect(history.replaceState).toHaveBeenLastCalledWith(null, "", "/admin/nodes/1?tab=slots");
  expect(shown(refused)).not.toContain("refused or cancelled");
  endSession("expired");
  await expect(completeSignIn()).rejects.toThrow("refused or cancelled");
});

it("a repeated sign-in that fails ends no session, and the next offer says why, once", async () => {
  const fails = async (text: string) => {
    keepPending(pending);
    await completeSignIn();
    expect(currentSession()?.token).toBe("a.b.c");
    expect(history.replaceState).toHaveBeenLastCalledWith(null, "", "/admin/nodes/1?tab=slots");
    expect(shown(refused)).toContain(`<p role="alert">${text}`);
    expect(shown(refused)).not.toContain(text);
  };
  const unmet = "The identity provider refused the sign-in: unmet_authentication_requirements.";
  provider.complete.mockRejectedValue(new SignInFailure(unmet));
  await fails(unmet);
  // what the library throws for a code or a nonce
  provider.complete.mockRejectedValue(new Error("unexpected ID Token nonce claim value"));
  await fails("The identity provider did not answer as expected. Try again.");
  provider.complete.mockResolvedValue(given("d.e.f"));
  caller.whoIs.mockRejectedValue(new Problem({ status: 503, message: "The platform is busy." }));
  await fails("The platform is busy.");
  caller.whoIs.mockResolvedValue({ ...me, principal: "user:b" });
  await fails("You signed in as user:b. You are still user:a here: to change that, sign out first.");
});

it("a repeated sign-in replaces the session, and leaves a project that is no longer one's own", async () => {
  const projects = [{ id: "p", slug: "p" }, { id: "q", slug: "q" }, { id: "r", slug: "r" }];
  signInAs("admin", { source, projects, project: "q" });
  keepPending(pending);
  provider.complete.mockResolvedValue(given("d.e.f"));
  caller.whoIs.mockResolvedValue({ ...me, projects });
  await completeSignIn();
  expect(currentSession()).toMatchObject({ token: "d.e.f", principal: "user:a", project: "q" });
  expect(history.replaceState).toHaveBeenLastCalledWith(null, "", "/admin/nodes/1?tab=slots");
  expect(shown(refused)).not.toContain('<p role="alert">');
  caller.whoIs.mockResolvedValue({ ...me, projects: [projects[0], projects[2]] });
  await completeSignIn();
  expect(currentSession()?.project).toBe("p");
});
