/** Who a token belongs to, as the server knows it. */
import { request } from "../api/client";
import type { PlatformRole } from "./rights";
import type { MemberRole } from "./roles";
import type { OwnOrganisation, Project } from "./session";

/** The part of the answer that the console uses. */
interface Answer {
  principal?: string;
  platform_role?: PlatformRole;
  projects?: { id?: string; slug?: string; role?: MemberRole; organisation_id?: string; organisation?: string }[];
  organisations?: { id?: string; slug?: string; role?: MemberRole }[];
}

export interface Caller {
  principal: string;
  platformRole: PlatformRole;
  projects: Project[];
  organisations: OwnOrganisation[];
}

export function callerOf({ principal = "", platform_role = "unspecified", projects = [], organisations = [] }: Answer): Caller {
  const named = ({ id = "", slug = "", role = "unspecified" }: { id?: string; slug?: string; role?: MemberRole }) => ({ id, slug, role });
  const owned = projects.map(({ organisation_id, organisation, ...project }) => ({ ...named(project), ...(organisation_id && { organisation_id }), ...(organisation && { organisation }) }));
  return { principal, platformRole: platform_role, projects: owned, organisations: organisations.map(named) };
}

/** Throws a `Problem` when the server refuses the token. */
export async function whoIs(token: string): Promise<Caller> {
  return callerOf(await request<Answer>("/api/v1/whoami", { headers: { Authorization: `Bearer ${token}` } }));
}
