import { expect, it, vi } from "vitest";
import { invitation, keepInvitation } from "./invitation";

it("the token of a link is kept, and no fragment keeps the console from coming up", () => {
  const kept = new Map<string, string>();
  vi.stubGlobal("sessionStorage", { getItem: (key: string) => kept.get(key) ?? null, setItem: (key: string, value: string) => kept.set(key, value) });
  vi.stubGlobal("history", { replaceState: vi.fn() });
  const opened = (pathname: string, hash: string) => {
    kept.clear();
    vi.stubGlobal("location", { pathname, hash });
    keepInvitation();
    return invitation();
  };
  expect(opened("/join", "#inv%2Da")).toBe("inv-a");
  expect(opened("/join", "#50%")).toBe("50%");
  expect(opened("/join", "")).toBe("");
  expect(opened("/usage", "#50%")).toBe("");
});
