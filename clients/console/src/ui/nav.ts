/** The pages of the console, for the menu and the command palette. */
import type { ComponentType } from "react";
import { Activity, Bot, Building2, CalendarClock, ChartColumn, Gauge, House, KeyRound, LayoutList, Plus, ReceiptText, ScrollText, Server, Tags, Users } from "./icons";

export interface Place {
  to: string;
  title: string;
  icon: ComponentType<{ size?: number; "aria-hidden"?: "true" }>;
  /** The page of this address alone, not of those below it. */
  exact?: boolean;
}

export const PLACES: Place[] = [
  { to: "/overview", title: "Overview", icon: House },
  { to: "/allocations", title: "Allocations", icon: Activity },
  { to: "/launch", title: "Launch", icon: Plus },
  { to: "/reservations", title: "Reservations", icon: CalendarClock },
  { to: "/usage", title: "Usage", icon: ReceiptText },
  { to: "/keys", title: "SSH keys", icon: KeyRound },
  { to: "/api-keys", title: "API keys", icon: Bot },
  { to: "/project", title: "Project", icon: Users },
  { to: "/organisation", title: "Organisation", icon: Building2 },
];

/** Of operators. */
export const PLATFORM: Place[] = [
  { to: "/admin", title: "Platform", icon: House, exact: true },
  { to: "/admin/allocations", title: "All allocations", icon: LayoutList },
  { to: "/admin/nodes", title: "Nodes", icon: Server },
  { to: "/admin/agent-rollouts", title: "Agent rollouts", icon: Bot },
  { to: "/admin/capacity", title: "Capacity", icon: ChartColumn },
  { to: "/admin/reservations", title: "All reservations", icon: CalendarClock },
  { to: "/admin/catalog", title: "Catalog", icon: Tags },
  { to: "/admin/quotas", title: "Quotas", icon: Gauge },
  { to: "/admin/organisations", title: "Organisations", icon: Building2 },
  { to: "/admin/audit", title: "Audit", icon: ScrollText },
];
