import { afterEach, beforeEach, expect, it, vi } from "vitest";
import { Problem } from "../api/problem";
import { signInAs } from "./fixture";
import { ensureGood, keepGood, wake } from "./lifecycle";
import { currentSession, endSession, endedBecause } from "./session";
import { onWake } from "./sleep";

const provider = vi.hoisted(() => ({ refresh: vi.fn() }));
vi.mock("./oidc", () => provider);
const caller = vi.hoisted(() => ({ whoIs: vi.fn() }));
vi.mock("./caller", () => caller);

const HOUR_MS = 3_600_000;
const source = { issuer: "https://login.example.com", clientId: "console", parameters: {}, refreshToken: "r", idToken: "i" };
let token = 0;

beforeEach(() => {
  vi.useFakeTimers();
  vi.stubGlobal("navigator", {});
  vi.stubGlobal("window", globalThis);
  vi.stubGlobal("document", { addEventListener: () => undefined, removeEventListener: () => undefined });
  provider.refresh.mockReset();
  caller.whoIs.mockReset().mockResolvedValue({});
});
afterEach(() => {
  endSession("signed_out");
  vi.useRealTimers();
});

/** Somebody who signed in an hour before the token ends; each with a token of its own. */
function signedIn(change: object = {}) {
  signInAs("unspecified", { token: `t${++token}`, expires: Date.now() + HOUR_MS, renewAt: Date.now() + HOUR_MS / 2, source, ...change });
}

/** The lid is closed: the clock goes on and no timer does. */
const sleep = (ms: number) => vi.setSystemTime(Date.now() + ms);

it("a sleep is noticed once, and a tab that nobody sees does not take its slow timers for one", async () => {
  const woken = vi.fn();
  const stop = onWake(woken);
  await vi.advanceTimersByTimeAsync(60_000);
  sleep(60_000);
  await vi.advanceTimersByTimeAsync(10_000);
  expect(woken).not.toHaveBeenCalled();
  sleep(8 * HOUR_MS);
  await vi.advanceTimersByTimeAsync(60_000);
  expect(woken).toHaveBeenCalledTimes(1);
  stop();
  sleep(8 * HOUR_MS);
  await vi.advanceTimersByTimeAsync(60_000);
  expect(woken).toHaveBeenCalledTimes(1);
});

it("after a sleep a sign-in that has ended at the provider is asked for once, and the person is signed out", async () => {
  provider.refresh.mockResolvedValue(undefined);
  signedIn();
  const stops = [keepGood(currentSession()!), onWake(() => void wake())];
  sleep(8 * HOUR_MS);
  // what the page asks for at the same moment
  const calls = Promise.all([ensureGood(), ensureGood(), ensureGood()]);
  await vi.advanceTimersByTimeAsync(HOUR_MS);
  await calls;
  expect([currentSession(), endedBecause(), provider.refresh.mock.calls.length]).toEqual([undefined, "expired", 1]);
  stops.forEach((stop) => stop());
});

it("after a sleep a sign-in that lasts is renewed once, and goes on", async () => {
  provider.refresh.mockImplementation(() => Promise.resolve({ token: "new", expires: Date.now() + HOUR_MS, source: { ...source, refreshToken: "r2" } }));
  signedIn();
  sleep(8 * HOUR_MS);
  const calls = Promise.all([wake(), ensureGood(), ensureGood()]);
  await vi.advanceTimersByTimeAsync(1000);
  await calls;
  expect([currentSession()?.token, currentSession()?.source?.refreshToken, provider.refresh.mock.calls.length]).toEqual(["new", "r2", 1]);
});

it("a provider that does not answer is not asked by every call", async () => {
  provider.refresh.mockRejectedValue(new TypeError("no network"));
  signedIn();
  sleep(8 * HOUR_MS);
  for (let call = 0; call < 5; call++) {
    const done = ensureGood();
    await vi.advanceTimersByTimeAsync(1000);
    await done;
  }
  expect([currentSession() !== undefined, provider.refresh.mock.calls.length]).toEqual([true, 1]);
  sleep(15_000);
  const again = ensureGood();
  await vi.advanceTimersByTimeAsync(1000);
  await again;
  expect(provider.refresh.mock.calls.length).toBe(2);
});

it("a sleep that was shorter than the token finds out whether the sign-in has ended meanwhile", async () => {
  const refused = (reason: string, status = 401) => new Problem({ status, message: "no", reason });
  signedIn();
  sleep(HOUR_MS / 4);
  caller.whoIs.mockRejectedValueOnce(new TypeError("no network"));
  await wake();
  expect(currentSession()).toBeDefined();
  caller.whoIs.mockRejectedValueOnce(refused("CREDENTIAL_INVALID"));
  await wake();
  expect([currentSession(), endedBecause(), provider.refresh.mock.calls.length]).toEqual([undefined, "refused", 0]);
});

it("a pasted token ends with its time, awake or asleep", async () => {
  signedIn({ source: undefined });
  const stop = keepGood(currentSession()!);
  await vi.advanceTimersByTimeAsync(HOUR_MS - 1);
  expect(currentSession()).toBeDefined();
  await vi.advanceTimersByTimeAsync(1);
  expect([currentSession(), endedBecause()]).toEqual([undefined, "expired"]);
  stop();
  signedIn({ source: undefined });
  sleep(HOUR_MS);
  await wake();
  expect([currentSession(), endedBecause()]).toEqual([undefined, "expired"]);
});
