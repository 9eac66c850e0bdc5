import { readFileSync } from "node:fs";
import { expect, it } from "vitest";
import { PLACES, placesFor } from "../ui/nav";
import { type MemberRole, type ProjectRight, projectOf, refusal, roleIn, roleMay } from "./roles";

const COLUMNS = ["nobody", "stranger", "viewer", "member", "billing", "owner"];
const ROLES = ["viewer", "member", "billing", "owner"] as const;
/** Methods that the console offers by each right. */
const METHODS: Record<ProjectRight, string[]> = {
  read: ["AllocationService.WatchAllocations", "AllocationService.WatchAllocation", "HealthEventService.ListHealthEvents", "CapacityReservationService.ListCapacityReservations", "ActivityService.ListActivities", "ApiKeyService.ListApiKeys", "InvitationService.ListProjectInvitations", "WebhookService.ListProjectWebhooks", "SshKeyService.ListProjectSshKeys", "ProjectNetworkService.GetProjectNetwork"],
  billing: ["UsageService.ListUsage", "QuotaService.GetQuotas", "ProjectService.GetProject", "MemberService.ListProjectMembers", "AllocationGrantService.ListAllocationGrants"],
  write: ["AllocationService.CreateAllocation", "AllocationService.StopAllocation", "AllocationService.ReleaseAllocation", "AllocationService.UpdateAllocation", "CapacityReservationService.CreateCapacityReservation", "CapacityReservationService.CancelCapacityReservation", "SshKeyService.CreateProjectSshKey", "ProjectNetworkService.PutProjectNetwork"],
  terminal: ["TerminalSessionService.CreateTerminalSession", "TerminalSessionService.ListAllocationTerminalSessions", "AllocationService.ReadSerialLog"],
  manage: ["MemberService.AddProjectMember", "MemberService.UpdateProjectMember", "MemberService.RemoveProjectMember", "InvitationService.CreateProjectInvitation", "AllocationGrantService.CreateAllocationGrant", "WebhookService.CreateProjectWebhook", "ServiceAccountService.CreateServiceAccount", "ApiKeyService.CreateApiKey", "ProjectService.UpdateProject", "ProjectService.SuspendProject"],
};

it("each role is offered what the declared table of access allows it, and nothing that it refuses", () => {
  const table = readFileSync(new URL("../../../../gateway/tests/data/access.txt", import.meta.url), "utf8");
  const rows = new Map(table.split("\n").filter((line) => line && !line.startsWith("#")).map((line) => line.split(/\s+/)).map(([method = "", ...answers]) => [method, answers]));
  for (const [right, methods] of Object.entries(METHODS) as [ProjectRight, string[]][]) {
    for (const method of methods) {
      const answers = ROLES.map((role) => rows.get(method)?.[COLUMNS.indexOf(role)]);
      expect([method, ...answers]).toEqual([method, ...ROLES.map((role) => (roleMay(role, right) ? "yes" : "no"))]);
    }
  }
});

it("who has no role that is known is offered everything, and a role of a later server nothing", () => {
  expect(roleMay(undefined, "manage")).toBe(true);
  expect(roleMay("unspecified", "billing")).toBe(false);
  expect(roleMay("of a later server" as MemberRole, "read")).toBe(false);
});

it("the menu has the pages that a role has something on", () => {
  const titles = (role: MemberRole | undefined, platform?: "auditor") => placesFor({ role }, platform).map(({ title }) => title);
  expect(titles("owner")).toEqual(PLACES.map(({ title }) => title));
  expect(titles(undefined)).toEqual(PLACES.map(({ title }) => title));
  expect(titles("viewer")).not.toContain("Launch");
  expect(titles("billing")).toEqual(["Overview", "Usage", "SSH keys", "Project", "Organisation"]);
  expect(titles("billing", "auditor")).toContain("Service accounts");
  expect(placesFor(undefined, undefined).map(({ title }) => title)).toEqual(["Overview", "SSH keys", "Project", "Organisation"]);
});

it("the project that is looked at is the chosen one, otherwise the first", () => {
  const projects = [{ id: "a", slug: "a", role: "viewer" as const }, { id: "b", slug: "b", role: "owner" as const }];
  expect(projectOf({ projects, project: "b" })?.role).toBe("owner");
  expect(projectOf({ projects, project: "" })?.role).toBe("viewer");
  expect(projectOf({ projects: [], project: "" })).toBeUndefined();
});

it("what belongs to another project of the caller's is offered by the role there", () => {
  const projects = [{ id: "a", slug: "a", role: "billing" as const }, { id: "b", slug: "b", role: "owner" as const }];
  expect(["a", "b", "", "of nobody here"].map((id) => roleIn({ projects, project: "a" }, id))).toEqual(["billing", "owner", "billing", "billing"]);
});

it("what is not offered has a reason", () => {
  expect(refusal("viewer", "write")).toBe("Your role in this project is Viewer. You need the role Member or a stronger one. Ask an owner of the project.");
  expect(refusal("member", "manage")).toBe("Your role in this project is Member. You need the role Owner. Ask an owner of the project.");
});
