/** Guardrails of an organisation as a form and in words. Pure. */
import type { Guardrails, GuardrailsChange, Switch } from "../../api/guardrails";
import { sentence } from "../../lib/text";
import { isSlug } from "../catalog/parts";

/** What can be forbidden, its label, and what follows. */
export const SWITCHES: [Switch, string, string][] = [
  ["terminals_disabled", "No terminals", "Also no SSH through the platform. Open terminals end."],
  ["serial_logs_disabled", "No serial logs", "Nobody can read serial logs. Open ones end."],
  ["ingress_mappings_disabled", "No new ingress mappings", "Existing mappings stay."],
  ["webhooks_disabled", "No webhooks", "Existing webhooks are disabled."],
  ["api_keys_disabled", "No API keys", "Calls with API keys are refused, except SCIM."],
];

/** The form. */
export interface Draft {
  on: Record<Switch, boolean>;
  days: string;
  regions: string;
  skus: string;
}

const MAX_DAYS = 3650;

export function draftOf(guardrails: Guardrails): Draft {
  const on = Object.fromEntries(SWITCHES.map(([name]) => [name, guardrails[name] ?? false])) as Record<Switch, boolean>;
  const { max_api_key_days: days = 0, allowed_regions = [], allowed_skus = [] } = guardrails;
  return { on, days: days ? String(days) : "", regions: allowed_regions.join(", "), skus: allowed_skus.join(", ") };
}

function namesOf(text: string): string[] {
  const names = text.split(",").map((name) => name.trim());
  return [...new Set(names.filter((name) => name !== ""))].sort();
}

export function namesProblem(text: string): string | undefined {
  const bad = namesOf(text).find((name) => !isSlug(name));
  return bad && `${bad} is not a valid name. Use lowercase letters, digits and hyphens.`;
}

export function daysProblem(text: string): string | undefined {
  const days = text.trim();
  return days === "" || (/^\d{1,4}$/.test(days) && Number(days) <= MAX_DAYS) ? undefined : `A whole number up to ${MAX_DAYS}.`;
}

/** What the form changes. */
export function changeOf(guardrails: Guardrails, draft: Draft): GuardrailsChange {
  const before = draftOf(guardrails);
  const switched = SWITCHES.map(([name]) => name).filter((name) => draft.on[name] !== before.on[name]);
  const on: Partial<Record<Switch, boolean>> = Object.fromEntries(switched.map((name) => [name, draft.on[name]]));
  const days = Number(draft.days.trim());
  const [regions, skus] = [namesOf(draft.regions), namesOf(draft.skus)];
  const differs = (now: string[], then: string[] = []) => now.join() !== then.join();
  return {
    ...on,
    ...(days !== (guardrails.max_api_key_days ?? 0) && { max_api_key_days: days }),
    ...(differs(regions, guardrails.allowed_regions) && { allowed_regions: { names: regions } }),
    ...(differs(skus, guardrails.allowed_skus) && { allowed_skus: { names: skus } }),
  };
}

/** What a switch is about: "No terminals" about "Terminals". */
function aboutOf(label: string): string {
  return sentence(label.replace(/^No /, ""));
}

/** Of names that are typed those that nothing has: nobody could launch anything. */
export function unknownOf(text: string, known: string[] | undefined): string[] {
  return known ? namesOf(text).filter((name) => !known.includes(name)) : [];
}

/** Each with what it is set to. */
export function wordsOf(guardrails: Guardrails): [string, string][] {
  const { max_api_key_days: days = 0, allowed_regions = [], allowed_skus = [] } = guardrails;
  return [
    ...SWITCHES.map(([name, label]): [string, string] => [aboutOf(label), guardrails[name] ? "Forbidden" : "Allowed"]),
    ["API keys expire after", days ? `${days} ${days === 1 ? "day" : "days"}` : "No limit"],
    ["Allowed regions", allowed_regions.join(", ") || "All"],
    ["Allowed SKUs", allowed_skus.join(", ") || "All"],
  ];
}
