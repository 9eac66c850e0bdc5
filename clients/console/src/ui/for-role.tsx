/** A page that a role in the project may not open, or that is of a project where there is none, says so, and asks the server for nothing. */
import type { ReactNode } from "react";
import { type Right, useMay } from "../session/rights";
import { type ProjectRight, refusal, useProjectMay, useProjectRole } from "../session/roles";
import { useSession } from "../session/session";
import { Empty } from "./basics";
import { KeyRound } from "./icons";
import { NoProject } from "./no-project";
import { Page } from "./shell";

export function ForRole({ title, right, platform, otherwise, children }: { title: string; right: ProjectRight; /** Suffices on the platform. */ platform?: Right; /** What is there all the same. */ otherwise?: ReactNode; children: ReactNode }) {
  const allowed = useProjectMay(right, platform);
  const role = useProjectRole();
  const belongs = (useSession()?.projects.length ?? 0) > 0;
  const operates = useMay(platform ?? "manage") && platform !== undefined;
  if (allowed && (belongs || operates)) return children;
  if (!belongs) {
    return (
      <Page title={title}>
        <NoProject />
      </Page>
    );
  }
  return (
    <Page title={title}>
      <Empty icon={<KeyRound size={28} />} title="Your role does not allow this">
        {refusal(role, right)}
      </Empty>
      {otherwise}
    </Page>
  );
}
