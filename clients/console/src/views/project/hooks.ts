/** What a webhook's address may be, and how a delivery went. Pure. */
import type { WebhookDelivery } from "../../api/webhooks";
import type { Tone } from "../../ui/basics";

/** What is wrong with an address that was typed; the platform looks further, for example whether it is a public one. */
export function urlProblem(text: string): string | undefined {
  if (text === "") return undefined;
  if (!URL.canParse(text)) return "Enter a URL.";
  const { protocol, username, password, hash } = new URL(text);
  if (protocol !== "https:") return "The URL must begin with https://.";
  if (username || password) return "The URL must not have a user or password.";
  return hash ? "The URL must not have a fragment (#…)." : undefined;
}

const TONES: Record<string, Tone> = { pending: "busy", delivered: "good", failed: "bad" };

export function deliveryTone({ state = "unspecified" }: WebhookDelivery): Tone {
  return TONES[state] ?? "idle";
}

/** What the endpoint said, in a few words. */
export function outcome({ response_status = 0, error = "", attempts = 0 }: WebhookDelivery): string {
  if (error) return error.charAt(0).toUpperCase() + error.slice(1);
  if (response_status) return `Answered ${response_status}`;
  return attempts ? "In progress" : "Not attempted yet";
}
