/** Who a token belongs to, as the server knows it. */
import { request } from "../api/client";
import type { Project } from "./session";

/** The part of the answer that the console uses. */
interface Answer {
  principal?: string;
  roles?: string[];
  projects?: { id?: string; slug?: string }[];
}

export interface Caller {
  principal: string;
  admin: boolean;
  projects: Project[];
}

const ADMIN = "platform_admin";

export function callerOf({ principal = "", roles = [], projects = [] }: Answer): Caller {
  return { principal, admin: roles.includes(ADMIN), projects: projects.map(({ id = "", slug = "" }) => ({ id, slug })) };
}

/** Throws a `Problem` when the server refuses the token. */
export async function whoIs(token: string): Promise<Caller> {
  return callerOf(await request<Answer>("/api/v1/whoami", { headers: { Authorization: `Bearer ${token}` } }));
}
