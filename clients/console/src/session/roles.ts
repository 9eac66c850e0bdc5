/** What a role in a project may do, as deploy/policies/roles.cedar says. The API decides; here it is offered or not. */
import type { components } from "@gpuaas/sdk";
import { type Right, may } from "./rights";
import { type Project, type Session, useSession } from "./session";

export type MemberRole = components["schemas"]["identity.MemberRole"];
/** To read it; its usage and limits; to launch and change; to open terminals and what they printed; to change members, keys and settings. */
export type ProjectRight = "read" | "billing" | "write" | "terminal" | "manage";

const RIGHTS: Record<MemberRole, ProjectRight[]> = {
  unspecified: [],
  billing: ["billing"],
  viewer: ["read", "billing"],
  member: ["read", "billing", "write", "terminal"],
  owner: ["read", "billing", "write", "terminal", "manage"],
};

const WORDS: Record<MemberRole, string> = { unspecified: "none", billing: "Billing", viewer: "Viewer", member: "Member", owner: "Owner" };

/** Who could do it: the weakest role that has the right. */
const NEEDED: Record<ProjectRight, string> = { read: "Viewer", billing: "Billing", write: "Member", terminal: "Member", manage: "Owner" };

/** Without a project, or with a session that does not know its role, everything is offered and the API refuses. */
export function roleMay(role: MemberRole | undefined, right: ProjectRight): boolean {
  // a role of a later server has no rights here
  return role === undefined || (RIGHTS[role] ?? []).includes(right);
}

/** The project that is looked at: the chosen one, otherwise the first. */
export function projectOf({ projects, project }: Pick<Session, "projects" | "project">): Project | undefined {
  return projects.find(({ id }) => id === project) ?? projects[0];
}

/** The role in a project of the caller's, otherwise in the one that is looked at. */
export function roleIn(session: Pick<Session, "projects" | "project">, project_id?: string): MemberRole | undefined {
  return (session.projects.find(({ id }) => id === project_id) ?? projectOf(session))?.role;
}

/** The same of who is signed in. */
export function useProjectRole(project_id?: string): MemberRole | undefined {
  const session = useSession();
  return session && roleIn(session, project_id);
}

/**
 * Whether who is signed in may do it in the project that is looked at, or in `project_id`: by the role there, or by `platform`,
 * the right on the whole platform that suffices. Allocations, reservations and networks have none: only members see those.
 */
export function useProjectMay(right: ProjectRight, platform?: Right, project_id?: string): boolean {
  const role = useProjectRole(project_id);
  const platformRole = useSession()?.platformRole;
  return roleMay(role, right) || (platform !== undefined && may(platformRole, platform));
}

/** Why something is not offered. */
export function refusal(role: MemberRole | undefined, right: ProjectRight): string {
  return `Your role in this project is ${WORDS[role ?? "unspecified"] ?? role}. You need the role ${NEEDED[right]}${right === "manage" ? "" : " or a stronger one"}. Ask an owner of the project.`;
}
