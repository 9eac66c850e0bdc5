import { QueryClient, QueryClientProvider } from "@tanstack/react-query";
import { renderToStaticMarkup } from "react-dom/server";
import { expect, it } from "vitest";
import { Router } from "wouter";
import type { Activity } from "../../api/activity";
import type { Allocation } from "../../api/types";
import { Row, nameIn, pageOf, reasonText, whoOf } from "./row";

const activity: Activity = {
  id: "01930000-0001-7000-8000-000000000001",
  create_time: "2026-01-02T03:04:05Z",
  actor: "user:alice",
  actor_kind: "user",
  action: "allocation.stop",
  summary: "Stopped the allocation",
  kind: "allocation",
  resource: "allocation",
  resource_id: "a1",
  allocation_id: "a1",
  outcome: "allowed",
};
const row = (change: Partial<Activity> = {}, ended?: Allocation) => {
  const queries = new QueryClient();
  if (ended) queries.setQueryData(["allocation", ended.id], ended);
  return renderToStaticMarkup(
    <QueryClientProvider client={queries}>
      <Router ssrPath="/">
        <table>
          <tbody>
            <Row activity={{ ...activity, ...change }} view={{}} />
          </tbody>
        </table>
      </Router>
    </QueryClientProvider>,
  );
};

it("p10_an_activity_says_who_did_what_to_which_thing", () => {
  const text = row({ name: "train", reason: "maintenance" });
  for (const part of ["user:alice", "Stopped the allocation", 'href="/allocations/a1"', "train", "Allowed", "maintenance"]) expect(text).toContain(part);
  expect(row({ outcome: "denied" })).toContain('class="denied"');
});

it("operators have no name, and the platform is named as itself", () => {
  expect(whoOf({ ...activity, actor: "operator", actor_kind: "operator" })).toBe("An operator");
  expect(whoOf({ ...activity, actor: "", actor_kind: "platform" })).toBe("The platform");
});

it("a reason of the platform's own is said in words", () => {
  expect([undefined, "new_fans arrived", "ended_by_operator"].map(reasonText)).toEqual(["", "new_fans arrived", "Ended by operator"]);
});

it("a thing links to the page that shows it", () => {
  const of = (change: Partial<Activity>) => pageOf({ ...activity, allocation_id: "", ...change });
  expect(of({ resource: "capacity_reservation", resource_id: "r1", kind: "reservation" })).toBe("/reservations/r1");
  expect(of({ kind: "api_key" })).toBe("/api-keys");
  expect(of({ kind: "webhook_delivery" })).toBe("/project?tab=webhooks");
  expect(of({ kind: "project_member" })).toBe("/project");
  expect(of({ kind: "unheard_of" })).toBeUndefined();
});

it("an allocation has the name that it has now", () => {
  const view = { a1: { id: "a1", config: { name: "renamed" } } as Allocation };
  expect(nameIn(activity, view)).toBe("renamed");
  expect(nameIn({ ...activity, kind: "allocation_grant", name: "user:bob" }, view)).toBe("user:bob");
  // also after it has ended, and where the activity names somebody
  expect(row({ kind: "terminal", name: "user:bob" }, { id: "a1", config: { name: "train" } } as Allocation)).toContain(">train<");
});
