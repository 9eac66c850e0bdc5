import { QueryClient, QueryClientProvider } from "@tanstack/react-query";
import { renderToStaticMarkup } from "react-dom/server";
import { expect, it } from "vitest";
import type { OnboardingStep } from "../../api/types";
import { History, Onboarding } from "./history";
import { blockerText } from "./parts";

const steps = (states: OnboardingStep["state"][], names = ["enrol", "discover", "approve"]): OnboardingStep[] => states.map((state, index) => ({ number: index + 1, name: names[index] ?? "", state, detail: state === "current" ? "No discovery yet." : "" }));
const history = (items: { state: string; reason?: string; principal?: string; time: string }[], next = "") => {
  const queries = new QueryClient();
  queries.setQueryData(["node-history", "n"], { pages: [{ items, next }], pageParams: [""] });
  return renderToStaticMarkup(
    <QueryClientProvider client={queries}>
      <History nodeId="n" hostname="gpu-1" />
    </QueryClientProvider>,
  );
};

it("a_22_the_steps_of_onboarding_are_shown_until_all_are_done_with_what_the_next_one_waits_for", () => {
  const text = renderToStaticMarkup(<Onboarding steps={steps(["done", "current", "waiting"])} />);
  expect(text.match(/aria-current="step"/g)).toHaveLength(1);
  for (const part of ["Enrol its agent", "Discover its devices", "No discovery yet.", "(Waiting)"]) expect(text).toContain(part);
  expect(renderToStaticMarkup(<Onboarding steps={steps(["done", "not_needed", "done"])} />)).toBe("");
  expect(renderToStaticMarkup(<Onboarding steps={[]} />)).toBe("");
});

it("a node that serves, and that an operator takes out of service, is not onboarded anew", () => {
  const last = steps(["done", "current"], ["approve", "activate"]);
  expect(renderToStaticMarkup(<Onboarding steps={last} outOfService />)).toBe("");
  expect(renderToStaticMarkup(<Onboarding steps={last} />)).toContain("Activate it");
  expect(renderToStaticMarkup(<Onboarding steps={steps(["current", "waiting"], ["approve", "activate"])} outOfService />)).toContain("Approve the slots");
});

it("the history of a node names state, reason, time and who", () => {
  const text = history([
    { state: "broken", reason: "GPU 3 fell off the bus", principal: "user:admin", time: "2026-01-02T03:04:05Z" },
    { state: "ready", time: "2026-01-01T03:04:05Z" },
  ]);
  for (const part of ["Broken", "GPU 3 fell off the bus", "user:admin", 'dateTime="2026-01-02T03:04:05Z"', ">host<"]) expect(text).toContain(part);
  expect(history([])).toContain("No history yet");
  expect(text).not.toContain("Show more");
  const first = history([{ state: "ready", time: "2026-01-01T03:04:05Z" }], "more");
  for (const part of ["1 change, and more", "Show more"]) expect(first).toContain(part);
});

it("a_22_the_history_names_a_node_and_a_blocker_in_words", () => {
  const text = history([{ state: "enrolled", reason: "no_evidence", principal: "node:n", time: "2026-01-01T03:04:05Z" }]);
  for (const part of ["host agent of gpu-1", "No checks from the agent yet"]) expect(text).toContain(part);
  expect(text).not.toContain("no_evidence");
  expect(["ip_forwarding", "GPU 3 fell off the bus", "kvm"].map(blockerText)).toEqual(["IP forwarding", "GPU 3 fell off the bus", "kvm"]);
});
