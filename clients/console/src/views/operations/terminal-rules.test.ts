import { expect, it } from "vitest";
import { kindWord, matching } from "./terminal-rules";

const sessions = [
  { id: "1", principal: "user:ann", allocation_id: "a-1", project_id: "p", kind: "shell" as const, open_time: "2026-01-01T00:00:00Z" },
  { id: "2", principal: "user:ann", allocation_id: "a-2", project_id: "q", kind: "ssh_tunnel" as const, open_time: "2026-01-01T00:00:00Z", close_time: "2026-01-01T01:00:00Z", close_reason: "idle" },
  { id: "3", principal: "user:bob", allocation_id: "a-2", project_id: "q", open_time: "2026-01-01T00:00:00Z", close_time: "2026-01-01T01:00:00Z", close_reason: "exited" },
];
const slugOf = (id = "") => ({ p: "vision", q: "speech" })[id] ?? id;
const found = (search: string, state: "" | "open" | "closed" = "") => matching(sessions, search, state, slugOf).map(({ id }) => id);

it("terminals are found by person, project, allocation, kind and why they ended", () => {
  expect(found("")).toEqual(["1", "2", "3"]);
  expect(found("ANN speech")).toEqual(["2"]);
  expect(found("a-2")).toEqual(["2", "3"]);
  expect(found("tunnel")).toEqual(["2"]);
  expect(found("exited")).toEqual(["3"]);
  expect(found("vision bob")).toEqual([]);
});

it("one is open until it is closed", () => {
  expect([found("", "open"), found("", "closed"), found("ann", "closed")]).toEqual([["1"], ["2", "3"], ["2"]]);
  expect(sessions.map(kindWord)).toEqual(["Shell", "SSH tunnel", "Shell"]);
});
