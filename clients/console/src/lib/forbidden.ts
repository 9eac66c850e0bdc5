/** What an organisation's guardrails refuse, in words. Pure. */
import type { Guardrails, Switch } from "../api/guardrails";

const WORDS: Record<Switch, string> = {
  terminals_disabled: "terminals",
  serial_logs_disabled: "serial logs",
  ingress_mappings_disabled: "new ingress ports",
  webhooks_disabled: "webhooks",
  api_keys_disabled: "API keys",
};

/** Why it is not offered; nothing where it is allowed, or nobody knows yet. */
export function forbidden(guardrails: Guardrails | undefined, name: Switch): string | undefined {
  return guardrails?.[name] ? `Your organisation does not allow ${WORDS[name]}.` : undefined;
}

export type Limited = "region" | "SKU";

function namesOf(guardrails: Guardrails | undefined, kind: Limited): string[] {
  return (kind === "region" ? guardrails?.allowed_regions : guardrails?.allowed_skus) ?? [];
}

/** The same of one region or SKU. */
export function forbiddenOf(guardrails: Guardrails | undefined, kind: Limited, code: string): string | undefined {
  const names = namesOf(guardrails, kind);
  return names.length === 0 || names.includes(code) ? undefined : `Your organisation does not allow this ${kind}.`;
}

/** The regions or SKUs that are allowed; all where none of them is, so that a form has something to show the reason at. */
export function allowedOf<T extends { code: string }>(guardrails: Guardrails | undefined, kind: Limited, things: T[]): T[] {
  const allowed = things.filter(({ code }) => !forbiddenOf(guardrails, kind, code));
  return allowed.length > 0 ? allowed : things;
}
