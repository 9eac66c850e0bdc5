import { beforeEach, expect, it, vi } from "vitest";
import { SignInFailure } from "./failure";
import { complete } from "./oidc";
import { keepPending } from "./pending";

const issuer = "https://login.example.com";

beforeEach(() => {
  const kept = new Map<string, string>();
  vi.stubGlobal("sessionStorage", { getItem: (key: string) => kept.get(key) ?? null, setItem: (key: string, value: string) => kept.set(key, value), removeItem: (key: string) => kept.delete(key) });
  vi.stubGlobal("fetch", () => Promise.resolve(Response.json({ issuer, authorization_endpoint: `${issuer}/authorize`, token_endpoint: `${issuer}/token` })));
});

/** What becomes of the sign-in when the provider leads back with these parameters. */
function led(parameters: Record<string, string>): Promise<unknown> {
  keepPending({ issuer, clientId: "console", parameters: {}, state: "s", nonce: "n", verifier: "v", returnTo: "/" });
  vi.stubGlobal("location", { href: `https://console.example.com/sign-in/callback?${new URLSearchParams(parameters)}`, origin: "https://console.example.com" });
  return complete().catch((failure: unknown) => failure);
}

it("only a sign-in that was cancelled is told from one that failed", async () => {
  const cancelled = await led({ error: "access_denied", state: "s" });
  expect(cancelled).toBeInstanceOf(SignInFailure);
  expect(cancelled).toMatchObject({ cancelled: true });
  const unmet = await led({ error: "unmet_authentication_requirements", state: "s" });
  expect(unmet).toMatchObject({ cancelled: false, message: "The identity provider refused the sign-in: unmet_authentication_requirements." });
  // anybody can lead a browser here with such a parameter
  const forged = await led({ error: "access_denied", state: "guessed" });
  expect(forged).toMatchObject({ cancelled: false, message: "The answer is not one to this sign-in, so it was not used." });
});
