/** A page that a role in the project may not open says so, and asks the server for nothing. */
import type { ReactNode } from "react";
import type { Right } from "../session/rights";
import { type ProjectRight, refusal, useProjectMay, useProjectRole } from "../session/roles";
import { Empty } from "./basics";
import { KeyRound } from "./icons";
import { Page } from "./shell";

export function ForRole({ title, right, platform, otherwise, children }: { title: string; right: ProjectRight; /** Suffices on the platform. */ platform?: Right; /** What is there all the same. */ otherwise?: ReactNode; children: ReactNode }) {
  const allowed = useProjectMay(right, platform);
  const role = useProjectRole();
  if (allowed) return children;
  return (
    <Page title={title}>
      <Empty icon={<KeyRound size={28} />} title="Your role does not allow this">
        {refusal(role, right)}
      </Empty>
      {otherwise}
    </Page>
  );
}
