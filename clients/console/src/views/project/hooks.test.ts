import { expect, it } from "vitest";
import { eventTypes } from "../../api/webhooks";
import { deliveryTone, outcome, urlProblem } from "./hooks";

it("an address is https, without user, password and fragment", () => {
  expect(urlProblem("")).toBeUndefined();
  expect(urlProblem("https://hooks.example.com/gpuaas?x=1")).toBeUndefined();
  expect(urlProblem("hooks")).toBe("Enter a URL.");
  expect(urlProblem("http://hooks.example.com")).toBe("The URL must begin with https://.");
  expect(urlProblem("https://me@hooks.example.com")).toBe("The URL must not have a user or password.");
  expect(urlProblem("https://hooks.example.com/#x")).toBe("The URL must not have a fragment (#…).");
});

it("a delivery says what the endpoint said", () => {
  expect(outcome({})).toBe("Not attempted yet");
  expect(outcome({ attempts: 1 })).toBe("In progress");
  expect(outcome({ attempts: 1, response_status: 204 })).toBe("Answered 204");
  expect(outcome({ attempts: 3, response_status: 500, error: "the answer was 500" })).toBe("The answer was 500");
  expect([deliveryTone({ state: "failed" }), deliveryTone({})]).toEqual(["bad", "idle"]);
});

it("event types are all that a webhook gets, with their meaning", () => {
  const names = ["allocation.active", "project.created", "project.updated", "project.closed", "project_member.added", "organisation.updated", "organisation_member.added"];
  const types = names.map((name) => ({ name, summary: `Of ${name}.` }));
  const messages = Object.fromEntries([...types, { name: "webhook.ping", summary: "Somebody asks." }].map((one) => [one.name, one]));
  expect(eventTypes({ components: { messages } }, "organisation")).toEqual(types);
  // the others of its organisation are none of a project's business, or come when it has no webhook
  expect(eventTypes({ components: { messages } }, "project").map(({ name }) => name)).toEqual(["allocation.active", "project.updated", "project_member.added", "organisation.updated"]);
});
