/** Which organisation is shown. Pure. */
import type { Organisation } from "../../api/tenancy";

/** Those that the caller is a member of, and the one that is looked at: the `wanted` one, otherwise the first. */
export function chosenOf(all: Organisation[], wanted: string): { members: Organisation[]; chosen: Organisation | undefined } {
  // who is in a project of it alone has no role in the organisation
  const members = all.filter(({ role }) => role && role !== "unspecified");
  return { members, chosen: members.find(({ id }) => id === wanted) ?? members[0] };
}

/** The views of an organisation that the reader has. An administrator who is no member sees no groups and no SCIM here. */
export function tabsOf({ role }: Pick<Organisation, "role">, owner: boolean): string[] {
  const isMember = !!role && role !== "unspecified";
  return ["members", ...(owner ? ["invitations"] : []), "projects", ...(isMember ? ["groups", "scim"] : []), ...(owner ? ["webhooks"] : []), "settings"];
}
