/** The pages of the console, for the menu and the command palette. */
import type { ComponentType } from "react";
import { type PlatformRole, type Right, may } from "../session/rights";
import { type MemberRole, type ProjectRight, roleMay } from "../session/roles";
import { Activity, Bot, Building2, CalendarClock, ChartColumn, Gauge, History, House, KeyRound, LayoutList, Plus, ReceiptText, ScrollText, Server, SquareTerminal, Tags, Users } from "./icons";

export interface Place {
  to: string;
  title: string;
  icon: ComponentType<{ size?: number; "aria-hidden"?: "true" }>;
  /** The page of this address alone, not of those below it. */
  exact?: boolean;
  /** Where its items are, besides below it. */
  also?: string;
  /** What who goes there needs in the project, */
  needs?: ProjectRight;
  /** or on the platform. */
  orOnPlatform?: Right;
}

export const PLACES: Place[] = [
  { to: "/overview", title: "Overview", icon: House },
  { to: "/allocations", title: "Allocations", icon: Activity, needs: "read" },
  { to: "/launch", title: "Launch", icon: Plus, needs: "write" },
  { to: "/reservations", title: "Reservations", icon: CalendarClock, needs: "read" },
  { to: "/activity", title: "Activity", icon: History, needs: "read" },
  { to: "/usage", title: "Usage", icon: ReceiptText, needs: "billing" },
  { to: "/keys", title: "SSH keys", icon: KeyRound },
  { to: "/api-keys", title: "Service accounts", icon: Bot, needs: "read", orOnPlatform: "read" },
  { to: "/project", title: "Project", icon: Users },
  { to: "/organisation", title: "Organisation", icon: Building2 },
];

/** Of operators. */
export const PLATFORM: Place[] = [
  { to: "/admin", title: "Platform overview", icon: House, exact: true },
  { to: "/admin/allocations", title: "All allocations", icon: LayoutList },
  { to: "/admin/nodes", title: "Nodes", icon: Server },
  { to: "/admin/agent-rollouts", title: "Agent rollouts", icon: Bot },
  { to: "/admin/capacity", title: "Capacity", icon: ChartColumn },
  { to: "/admin/reservations", title: "All reservations", icon: CalendarClock },
  { to: "/admin/catalog", title: "Catalog", icon: Tags },
  { to: "/admin/quotas", title: "Quotas", icon: Gauge },
  { to: "/admin/organisations", title: "Organisations", icon: Building2, also: "/admin/projects" },
  { to: "/admin/principals", title: "Principals", icon: Users },
  { to: "/admin/terminals", title: "Terminals", icon: SquareTerminal },
  { to: "/admin/audit", title: "Audit", icon: ScrollText },
];

/** The pages that somebody has something on: by the role in the project, where there is one, or on the platform. */
export function placesFor(project: { role?: MemberRole } | undefined, platformRole: PlatformRole | undefined): Place[] {
  return PLACES.filter(({ needs, orOnPlatform }) => !needs || (project && roleMay(project.role, needs)) || (orOnPlatform !== undefined && may(platformRole, orOnPlatform)));
}

/** Whether an address is of a page of the menu. */
export function isAt(location: string, { to, exact, also }: Place): boolean {
  const below = (start: string) => location.startsWith(`${start}/`);
  return location === to || (!exact && below(to)) || (also !== undefined && below(also));
}
