/** What a role on the whole platform may do, as deploy/policies/platform.cedar says. The API decides; here it is offered or not. */
import type { components } from "@gpuaas/sdk";
import { useSession } from "./session";

export type PlatformRole = components["schemas"]["identity.PlatformRole"];
/** To read the platform; to run its nodes, images and allocations; to change rights, prices, quotas, regions and SKUs. */
export type Right = "read" | "operate" | "manage";

const RIGHTS: Record<PlatformRole, Right[]> = {
  unspecified: [],
  auditor: ["read"],
  operator: ["read", "operate"],
  admin: ["read", "operate", "manage"],
};

export const ROLE_WORDS: Record<PlatformRole, string> = { unspecified: "", auditor: "auditor", operator: "operator", admin: "administrator" };

export function may(role: PlatformRole | undefined, right: Right): boolean {
  // a role of a later server has no rights here
  return (RIGHTS[role ?? "unspecified"] ?? []).includes(right);
}

/** Whether who is signed in may do it on the platform. */
export function useMay(right: Right): boolean {
  return may(useSession()?.platformRole, right);
}
