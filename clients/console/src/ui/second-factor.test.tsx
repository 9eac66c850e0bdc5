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
  api.request.mockResolvedValue({ issuers: [] });
  await expect(signInAgain()).rejects.toThrow(SignInFailure);
});

it("who cancels is still signed in and back at the page, and without a session the failure is told", async () => {
  keepPending({ issuer: source.issuer, clientId: "console", parameters: {}, state: "s", nonce: "n", verifier: "v", returnTo: "/admin/nodes/1?tab=slots" });
  provider.complete.mockRejectedValue(new SignInFailure("The sign-in was refused or cancelled."));
  await completeSignIn();
  expect(currentSession()?.token).toBe("a.b.c");
  expect(history.replaceState).toHaveBeenLastCalledWith(null, "", "/admin/nodes/1?tab=slots");
  endSession("expired");
  await expect(completeSignIn()).rejects.toThrow("refused or cancelled");
});
