import { QueryClient, QueryClientProvider } from "@tanstack/react-query";
import { renderToStaticMarkup } from "react-dom/server";
import { beforeAll, expect, it } from "vitest";
import { signInAs } from "../../session/fixture";
import { Router } from "wouter";
import type { AgentRollout } from "../../api/types";
import { Actions } from "./actions";
import { Wave, actionsOf } from "./parts";
import { matching } from "./search";

beforeAll(() => signInAs("operator"));

const failed = { node_id: "n1", hostname: "h1", rack: "r1", state: "failed", reason: "the package has another digest", version: "new", from_version: "old", agent_version: "old" } as const;
const updated = { ...failed, node_id: "n2", hostname: "h2", state: "succeeded", reason: "", agent_version: "new" } as const;
const rollout = (state: AgentRollout["state"], ...nodes: NonNullable<NonNullable<AgentRollout["waves"]>[number]["nodes"]>): AgentRollout => ({ id: "r", version: "new", state, waves: [{ number: 1, nodes }] });

it("a wave shows each node with its state, versions and reason", () => {
  const shown = renderToStaticMarkup(
    <Router ssrPath="/">
      <Wave wave={{ number: 2, nodes: [failed, updated] }} isCurrent />
    </Router>,
  );
  for (const part of ["Wave 2", "1 of 2 nodes updated, current", "h1", "Failed", "the package has another digest", "h2", "Updated", "old", "new"]) expect(shown).toContain(part);
});

it("only what the state allows is offered", () => {
  expect(actionsOf(rollout("running", failed))).toEqual(["pause", "abort"]);
  expect(actionsOf(rollout("paused", failed, updated))).toEqual(["resume", "abort", "rollback"]);
  expect(actionsOf(rollout("running", updated, { ...failed, state: "updating" }))).toEqual(["pause", "abort"]);
  expect(actionsOf(rollout("completed", updated))).toEqual(["rollback"]);
  expect(actionsOf({ ...rollout("completed", updated), rollback_of: "x" })).toEqual([]);
  const shown = renderToStaticMarkup(
    <QueryClientProvider client={new QueryClient()}>
      <Router ssrPath="/">
        <Actions rollout={rollout("paused", failed, updated)} />
      </Router>
    </QueryClientProvider>,
  );
  for (const part of ["Resume", "Abort", "Roll back"]) expect(shown).toContain(part);
  expect(shown).not.toContain("Pause");
});

it("a search finds rollouts by version, digest, who began it and why, and by state at once", () => {
  const all: AgentRollout[] = [
    { id: "1", version: "0.9.1", digest: "sha256:cafe", state: "paused", principal: "user:olga", reason: "security update" },
    { id: "2", version: "0.9.0", digest: "sha256:beef", state: "completed", principal: "user:otto", reason: "" },
    { id: "3", rollback_of: "1", state: "running", principal: "user:olga" },
  ];
  const found = (search: string, state = "") => matching(all, { search, state }).map(({ id }) => id);
  expect(found("")).toEqual(["1", "2", "3"]);
  for (const [search, ids] of [["0.9", "12"], ["BEEF", "2"], ["olga security", "1"], ["rollback", "3"], ["nothing", ""]] as const) expect(found(search).join("")).toBe(ids);
  expect([found("olga", "paused"), found("otto", "paused")]).toEqual([["1"], []]);
});
