/** That a project is suspended: why, what is refused, and who ends it. */
import { Link } from "wouter";
import { type TenantProject, useOwnOrganisations, useProjectId, useTenantProject } from "../../api/tenancy";
import { useMay } from "../../session/rights";
import { useProjectMay } from "../../session/roles";
import { type Suspension, suspensionOf } from "./suspension";

/** Nothing while the project is not suspended, or it is not known by whom. */
export function useSuspension(project: TenantProject | undefined): Suspension | undefined {
  const owner = useProjectMay("manage");
  const admin = useMay("manage");
  const isSuspended = project?.state === "suspended";
  const organisations = useOwnOrganisations(isSuspended);
  // who cannot read its organisation is told of the project alone
  if (!isSuspended || organisations.isPending) return undefined;
  return suspensionOf(project, organisations.data?.find(({ id }) => id === project.organisation_id), { owner, admin });
}

export function SuspensionNote({ of: { title, reason, advice }, settings = false }: { of: Suspension; /** Leads to where it is resumed. */ settings?: boolean }) {
  return (
    <section className="notice" aria-label="Suspended">
      <div>
        <p>
          <strong>{title}.</strong> {reason && `Reason: ${reason}`}
        </p>
        <p>Nothing can be launched or started. Running allocations continue, are billed, and can be stopped and released.</p>
        <p>
          {advice} {settings && <Link href="/project?tab=settings">Settings of the project</Link>}
        </p>
      </div>
    </section>
  );
}

/** The same of the project that is looked at. */
export function Suspended() {
  const suspension = useSuspension(useTenantProject(useProjectId()).data);
  return suspension ? <SuspensionNote of={suspension} settings={suspension.resumable} /> : null;
}
