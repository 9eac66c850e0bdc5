/** Secrets that the API shows in one answer and never again. */
import { plain, SecretLostError } from "./errors.js";
import type { paths } from "./schema.js";

interface Once {
  /** Field of the answer. */
  field: string;
  /** What was made. */
  made: string;
  advice: string;
}

const KEY: Once = { field: "key", made: "API key", advice: "rotate it, or disable it and create another one" };
const WEBHOOK: Once = { field: "secret", made: "webhook", advice: "rotate the secret" };
const INVITATION: Once = { field: "token", made: "invitation", advice: "revoke it and invite again" };

/** Of POST, by path. */
export const ONCE: Partial<Record<keyof paths, Once>> = {
  "/api/v1/projects/{project_id}/service-accounts/{service_account_id}/api-keys": KEY,
  "/api/v1/projects/{project_id}/service-accounts/{service_account_id}/api-keys/{api_key_id}:rotate": KEY,
  "/api/v1/projects/{project_id}/webhooks": WEBHOOK,
  "/api/v1/organisations/{organisation_id}/webhooks": WEBHOOK,
  "/api/v1/webhooks/{webhook_id}:rotateSecret": { ...WEBHOOK, advice: "rotate the secret once more" },
  "/api/v1/projects/{project_id}/invitations": INVITATION,
  "/api/v1/organisations/{organisation_id}/invitations": INVITATION,
  "/api/v1/admin/nodes/{node_id}/enrolment-tokens": { field: "token", made: "enrolment token", advice: "create another one, which replaces it" },
  "/api/v1/allocations/{allocation_id}/terminal-sessions": { field: "ticket", made: "ticket of a terminal", advice: "ask for another one" },
};

const PATTERNS = Object.entries(ONCE).map(([path, once]) => ({ once, pattern: new RegExp(`${path.replaceAll(/\{\w+\}/g, "[^/]+")}$`) }));

/** Throws when the answer lacks what an earlier attempt at the call has shown. */
export function checkOnce(request: Request, answer: object, key: string | undefined): void {
  if (request.method !== "POST") return;
  const { pathname } = new URL(request.url);
  const once = PATTERNS.find(({ pattern }) => pattern.test(pathname))?.once;
  if (!once) return;
  const told = answer as Record<string, unknown>;
  if (told[once.field]) return;
  const name = typeof told["id"] === "string" ? ` ${plain(told["id"])}` : "";
  const message = `the ${once.made}${name} was made by an earlier attempt with this idempotency key, and its ${once.field} is not shown again: ${once.advice}`;
  throw new SecretLostError(message, answer, once.advice, key);
}
