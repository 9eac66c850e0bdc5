/** The settings of SCIM as a form and in words. Pure. */
import type { ScimKey, ScimSettings, SubjectAttribute } from "../../api/scim";
import { keyWord } from "../accounts/rules";

export const SUBJECTS: [SubjectAttribute, string][] = [
  ["user_name", "User name (userName)"],
  ["external_id", "External id (externalId)"],
];

export interface Draft {
  issuer: string;
  subject: SubjectAttribute;
  /** Of the settings that it was made from: what somebody else sets later is not overwritten. */
  etag: string | undefined;
}

export function draftOf({ issuer = "", subject_attribute, etag }: ScimSettings): Draft {
  return { issuer, subject: subject_attribute === "external_id" ? "external_id" : "user_name", etag };
}

/** What is sent. */
export function settingsOf({ issuer, subject, etag }: Draft) {
  return { issuer: issuer.trim(), subject_attribute: subject, etag };
}

export function issuerProblem(text: string): string | undefined {
  return text.trim() === "" || URL.canParse(text.trim()) ? undefined : "The issuer is a URL, exactly as in its tokens.";
}

/** Whether the form says another thing than what is set. */
export function isChanged(settings: ScimSettings, { issuer, subject }: Draft): boolean {
  const now = draftOf(settings);
  return issuer.trim() !== "" && !issuerProblem(issuer) && (issuer.trim() !== now.issuer || subject !== now.subject);
}

/** When the identity provider called last, as far as the keys know: to the minute. */
export function lastCall(keys: ScimKey[]): string | undefined {
  return keys.map(({ api_key }) => api_key?.last_used_time ?? "").sort().at(-1) || undefined;
}

/** Whether the identity provider can call with it. */
export function isGood({ api_key = {}, account_disabled }: ScimKey, now: number): boolean {
  return !account_disabled && keyWord(api_key, now) === "active";
}

/** Those that are good first, the newest of them first. */
export function inOrder(keys: ScimKey[], now: number): ScimKey[] {
  const rank = (key: ScimKey) => (isGood(key, now) ? 0 : 1);
  const made = ({ api_key }: ScimKey) => api_key?.create_time ?? "";
  return [...keys].sort((a, b) => rank(a) - rank(b) || made(b).localeCompare(made(a)));
}

/** Where a key is made: where there is one already, or else in the first of the projects. */
export function projectFor(keys: ScimKey[], projects: { id?: string }[], wanted: string): string {
  const open = projects.map(({ id = "" }) => id);
  const known = keys.map(({ project_id = "" }) => project_id);
  return [wanted, ...known, ...open].find((id) => open.includes(id)) ?? "";
}
