import { beforeEach, expect, it, vi } from "vitest";
import type { Saved } from "./connection";
import { Transcript, leave, takeLeft } from "./left";

beforeEach(() => {
  const kept = new Map<string, string>();
  vi.stubGlobal("sessionStorage", {
    getItem: (key: string) => kept.get(key) ?? null,
    setItem: (key: string, value: string) => void kept.set(key, value),
    removeItem: (key: string) => void kept.delete(key),
  });
});

const saved = { ready: { session_id: "s", resume_seconds: 60 }, path: "/t", received: 7, input: { offset: 3, data: Uint8Array.of(1, 255) }, time: 1000 } as Saved;

it("a reload goes on with the session it left, once and in time", () => {
  leave("a", { saved, output: Uint8Array.of(27, 200, 10) });
  expect(takeLeft("b", 2000)).toBeUndefined();
  expect(takeLeft("a", 2000)).toEqual({ saved, output: Uint8Array.of(27, 200, 10) });
  expect(takeLeft("a", 2000)).toBeUndefined();
  leave("a", { saved, output: new Uint8Array() });
  expect(takeLeft("a", 62_000)).toBeUndefined();
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
