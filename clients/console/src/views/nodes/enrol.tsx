/** Another enrolment token of a node whose agent has not enrolled: the first one may have expired, or was lost. */
import { useState } from "react";
import { createEnrolmentToken } from "../../api/catalog";
import type { InventoryNode } from "../../api/types";
import { Button, Planned } from "../../ui/basics";
import { Confirm } from "../../ui/dialog";
import { KeyRound } from "../../ui/icons";
import { Secret } from "../project/parts";
import { hostnameOf } from "./enrolment";

type Token = Awaited<ReturnType<typeof createEnrolmentToken>>;

export function EnrolNode({ node }: { node: InventoryNode }) {
  const [made, setMade] = useState<Token>();
  const hostname = hostnameOf(node);
  if (node.status?.state !== "pending") return null;
  return (
    <>
      {made?.token && (
        <Secret title={`Enrolment token of ${hostname}`} label="enrolment token" text={made.token} close={() => setMade(undefined)}>
          <p>
            On the host, write the token into the file that <code>agent.enrolment.token_file</code> names, mode 0600, then start <code>gpuaas-node-agent</code>. <strong>It is shown once</strong>, works once, and expires <Planned value={made.expire_time} />.
          </p>
        </Secret>
      )}
      <Confirm needs="operate" trigger={<Button><KeyRound size={15} aria-hidden="true" /> Enrol</Button>} title={`Enrol ${hostname}`} action="Make a token" run={async () => setMade(await createEnrolmentToken(node.id ?? ""))}>
        You get a new enrolment token for the agent, shown once. Earlier tokens of the node stop working.
      </Confirm>
    </>
  );
}
