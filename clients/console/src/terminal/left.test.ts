import type { TerminalSaved } from "@gpuaas/sdk";
import { beforeEach, expect, it, vi } from "vitest";
import { signInAs } from "../session/fixture";
import { endSession } from "../session/session";
import { Transcript, leave, takeLeft } from "./left";

beforeEach(() => {
  const kept = new Map<string, string>();
  vi.stubGlobal("sessionStorage", {
    getItem: (key: string) => kept.get(key) ?? null,
    setItem: (key: string, value: string) => void kept.set(key, value),
    removeItem: (key: string) => void kept.delete(key),
    key: (index: number) => [...kept.keys()][index] ?? null,
    get length() {
      return kept.size;
    },
  });
});

const saved = { ready: { session_id: "s", resume_seconds: 60 }, path: "/t", received: 7, input: { offset: 3, data: Uint8Array.of(1, 255) }, time: 1000 } as TerminalSaved;

it("a reload goes on with the session it left, once and in time", () => {
  leave("user:a", "a", { saved, output: Uint8Array.of(27, 200, 10) });
  expect(takeLeft("user:a", "b", 2000)).toBeUndefined();
  expect(takeLeft("user:a", "a", 2000)).toEqual({ saved, output: Uint8Array.of(27, 200, 10) });
  expect(takeLeft("user:a", "a", 2000)).toBeUndefined();
  leave("user:a", "a", { saved, output: new Uint8Array() });
  expect(takeLeft("user:a", "a", 62_000)).toBeUndefined();
});

it("what one user left in a tab is not shown to the next, and is gone at sign-out", () => {
  const output = Uint8Array.of(10);
  signInAs("unspecified", { principal: "user:a" });
  leave("user:a", "vm", { saved, output });
  expect(takeLeft("user:b", "vm", 2000)).toBeUndefined();
  // the same user after an expiry goes on
  endSession("expired");
  signInAs("unspecified", { principal: "user:a" });
  expect(takeLeft("user:a", "vm", 2000)).toBeDefined();
  // another one after an expiry leaves nothing of it in the tab
  leave("user:a", "vm", { saved, output });
  endSession("expired");
  signInAs("unspecified", { principal: "user:ab" });
  expect(takeLeft("user:a", "vm", 2000)).toBeUndefined();
  leave("user:ab", "vm", { saved, output });
  endSession("signed_out");
  expect(takeLeft("user:ab", "vm", 2000)).toBeUndefined();
});

it("of a long output the last whole lines are kept", () => {
  const transcript = new Transcript();
  const line = new TextEncoder().encode(`${"x".repeat(99)}\n`);
  for (let i = 0; i < 2000; i++) transcript.add(line);
  const bytes = transcript.bytes();
  expect(bytes.length).toBeLessThanOrEqual(131_072);
  expect(bytes.length % 100).toBe(0);
  transcript.clear();
  expect(transcript.bytes().length).toBe(0);
});
