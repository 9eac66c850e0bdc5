import { QueryClient, QueryClientProvider } from "@tanstack/react-query";
import { renderToStaticMarkup } from "react-dom/server";
import { beforeAll, expect, it } from "vitest";
import { signInAs } from "../../session/fixture";
import { Router } from "wouter";
import type { AgentRollout } from "../../api/types";
import { Actions } from "./actions";
import { Wave, actionsOf } from "./parts";
import { filterOf } from "./search";

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

it("rollouts are searched by the server: by version, who began it and why, and by state at once", () => {
  expect(filterOf({ search: " ", state: "" }).filter).toBe("");
  expect(filterOf({ search: "0.9 Olga", state: "paused" }).filter).toBe('(version:"0.9" OR principal:"0.9" OR reason:"0.9") AND (version:"Olga" OR principal:"Olga" OR reason:"Olga") AND state = paused');
  expect(filterOf({ search: "", state: "nonsense" }).filter).toBe("");
});
