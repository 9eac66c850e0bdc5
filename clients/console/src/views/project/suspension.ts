/** Who suspended a project, why, and who ends it. Pure. */
import type { Organisation, TenantProject } from "../../api/tenancy";

export interface Suspension {
  title: string;
  /** As whoever did it wrote; empty: without a reason. */
  reason: string;
  /** What to do, as a sentence. */
  advice: string;
  /** The reader resumes the project itself. */
  resumable: boolean;
}

/** What the reader may do: what an owner of the project does, or what an administrator of the platform does. */
export interface Reader {
  owner: boolean;
  admin: boolean;
}

/** Nothing while the project is active or closed. `organisation` is that of the project, where it is known. */
export function suspensionOf(project: TenantProject, organisation: Organisation | undefined, { owner, admin }: Reader): Suspension | undefined {
  if (project.state !== "suspended") return undefined;
  const reason = project.state_reason ?? "";
  if (organisation?.state === "suspended") {
    const advice = admin ? "Resume the organisation under Organisations." : "Only an administrator of the platform resumes it. Ask one.";
    return { title: `The organisation ${organisation.display_name || organisation.slug} is suspended`, reason: organisation.state_reason || reason, advice, resumable: false };
  }
  if (project.suspended_by_platform) {
    const advice = admin ? "Resume it once the reason is gone." : "Only an administrator of the platform resumes it. Ask one.";
    return { title: "An administrator of the platform suspended this project", reason, advice, resumable: admin };
  }
  const title = "This project is suspended";
  if (owner || admin) return { title, reason, advice: "Resume it once the reason is gone.", resumable: true };
  return { title, reason, advice: "Owners of the project resume it. Ask one.", resumable: false };
}
