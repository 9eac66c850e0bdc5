/** Signatures of webhooks: the example of the specification, and what is not of the platform. */
import { expect, test } from "vitest";
import { isGenuineWebhook } from "../src/node.js";

const secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
const sent = 1614265330;
const body = '{"test": 2432232314}';
const good = "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=";
const headers = { "webhook-id": "msg_p5jXN8AQM9LWM0D4loKWxJek", "webhook-timestamp": String(sent), "webhook-signature": good };

test("the example of the specification is genuine", () => {
  expect(isGenuineWebhook(secret, headers, body, { now: sent + 10 })).toBe(true);
  expect(isGenuineWebhook(secret, { ...headers, "webhook-signature": `v1,b2xk ${good}` }, Buffer.from(body), { now: sent })).toBe(true);
});

test.each([
  [{}, `${body} `, 0],
  [{}, body, 301],
  [{}, body, -301],
  [{ "webhook-id": "msg_another" }, body, 0],
  [{ "webhook-timestamp": String(sent + 1) }, body, 0],
  [{ "webhook-timestamp": "now" }, body, 0],
  [{ "webhook-signature": "" }, body, 0],
  [{ "webhook-signature": good.replace("v1,", "v2,") }, body, 0],
])("what was changed or is old is not: %j", (changed, given, late) => {
  expect(isGenuineWebhook(secret, { ...headers, ...changed }, given, { now: sent + late })).toBe(false);
});

test.each(["", "whsec_", "whsec_!", "whsec_é"])("a secret that is none is refused: %j", (none) => {
  expect(() => isGenuineWebhook(none, headers, body, { now: sent })).toThrow("whsec_");
});
