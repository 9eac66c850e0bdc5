/** Whether a delivery to a webhook is of the platform: the signatures of Standard Webhooks. */
import { createHmac, timingSafeEqual } from "node:crypto";
import type { IncomingHttpHeaders } from "node:http";
import { UsageError } from "./errors.js";

/** Seconds that a delivery may be older or newer than the clock here. */
const TOLERANCE = 300;

export interface WebhookCheck {
  /** Seconds that a delivery may be older or newer than the clock here. */
  tolerance?: number;
  /** Seconds since 1970. */
  now?: number;
}

/**
 * Whether a delivery was signed with the secret of the webhook, and just now. `body` is what came, byte for byte; names of headers
 * are in lower case, as Node.js has them. Throws a `UsageError` for a secret that is none.
 */
export function isGenuineWebhook(secret: string, headers: IncomingHttpHeaders, body: Uint8Array | string, check: WebhookCheck = {}): boolean {
  const key = keyOf(secret);
  const text = (name: string): string => {
    const value = headers[name];
    return typeof value === "string" ? value : "";
  };
  const [id, sent] = [text("webhook-id"), text("webhook-timestamp")];
  const now = check.now ?? Date.now() / 1000;
  if (!id || !/^\d+$/.test(sent) || Math.abs(now - Number(sent)) > (check.tolerance ?? TOLERANCE)) return false;
  const made = createHmac("sha256", key).update(`${id}.${sent}.`).update(body).digest("base64");
  const expected = Buffer.from(`v1,${made}`);
  return text("webhook-signature")
    .split(" ")
    .some((one) => {
      const given = Buffer.from(one);
      return given.length === expected.length && timingSafeEqual(given, expected);
    });
}

function keyOf(secret: string): Buffer {
  const text = secret.replace(/^whsec_/, "");
  // with an empty key anybody could sign
  if (!/^[A-Za-z0-9+/]+={0,2}$/.test(text)) throw new UsageError("a secret is whsec_ and base64");
  return Buffer.from(text, "base64");
}
