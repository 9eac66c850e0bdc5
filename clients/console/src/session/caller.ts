/** Who a token belongs to, as the server knows it. */
import { request } from "../api/client";
import type { PlatformRole } from "./rights";
import type { Project } from "./session";

/** The part of the answer that the console uses. */
interface Answer {
  principal?: string;
  platform_role?: PlatformRole;
  projects?: { id?: string; slug?: string }[];
}

export interface Caller {
  principal: string;
  platformRole: PlatformRole;
  projects: Project[];
}

export function callerOf({ principal = "", platform_role = "unspecified", projects = [] }: Answer): Caller {
  return { principal, platformRole: platform_role, projects: projects.map(({ id = "", slug = "" }) => ({ id, slug })) };
}

/** Throws a `Problem` when the server refuses the token. */
export async function whoIs(token: string): Promise<Caller> {
  return callerOf(await request<Answer>("/api/v1/whoami", { headers: { Authorization: `Bearer ${token}` } }));
}
