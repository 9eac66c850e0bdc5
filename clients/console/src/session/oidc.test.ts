import { beforeEach, expect, it, vi } from "vitest";
import { SignInFailure } from "./failure";
import { complete, leave } from "./oidc";
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

it("who signs out leaves by the provider's page at once, and the token is revoked meanwhile, or could not be", async () => {
  const endpoints = { revocation_endpoint: `${issuer}/revoke`, end_session_endpoint: `${issuer}/end` };
  const source = { issuer, clientId: "console", parameters: {}, refreshToken: "r", idToken: "i" };
  for (const revoke of [() => new Promise<Response>(() => undefined), () => Promise.resolve(new Response()), () => Promise.resolve(new Response(null, { status: 401 })), () => Promise.reject(new TypeError("no network"))]) {
    const done: string[] = [];
    vi.stubGlobal("location", { origin: "https://console.example.com", assign: (page: URL) => done.push(`at ${page.pathname} ${page.searchParams.get("post_logout_redirect_uri")}`) });
    vi.stubGlobal("fetch", (address: string, init: RequestInit) => {
      if (!address.endsWith("/revoke")) return Promise.resolve(Response.json({ issuer, ...endpoints }));
      // the browser goes to another page before there is an answer
      done.push(`${init.keepalive ? "revoked" : "lost"} ${new URLSearchParams(init.body as URLSearchParams).get("token")}`);
      return revoke();
    });
    await leave(source, Date.now());
    expect(done).toEqual(["revoked r", "at /end https://console.example.com/"]);
  }
});

it("a provider that takes too long leads nobody away any more, and the token is revoked all the same", async () => {
  vi.useFakeTimers();
  const done: string[] = [];
  vi.stubGlobal("location", { origin: "https://console.example.com", assign: () => done.push("led away") });
  vi.stubGlobal("fetch", (address: string, { body, keepalive, signal }: RequestInit) => {
    if (address.endsWith("/revoke")) {
      done.push(`${keepalive ? "revoked" : "lost"} ${new URLSearchParams(body as URLSearchParams).get("token")}`);
      return Promise.resolve(new Response());
    }
    const answer = Response.json({ issuer, revocation_endpoint: `${issuer}/revoke`, end_session_endpoint: `${issuer}/end` });
    return new Promise<Response>((resolve, reject) => {
      signal?.addEventListener("abort", () => reject(signal.reason as Error));
      setTimeout(() => resolve(answer), 4000);
    });
  });
  // a deadline of the browser's goes by the same clock
  vi.spyOn(AbortSignal, "timeout").mockImplementation((ms) => {
    const late = new AbortController();
    setTimeout(() => late.abort(new DOMException("late", "TimeoutError")), ms);
    return late.signal;
  });
  const left = leave({ issuer, clientId: "console", parameters: {}, refreshToken: "r", idToken: "i" }, Date.now()).catch(() => done.push("given up"));
  await vi.advanceTimersByTimeAsync(4000);
  await left;
  expect(done).toEqual(["revoked r"]);
  vi.restoreAllMocks();
  vi.useRealTimers();
});
