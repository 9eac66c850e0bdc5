/** The name for people of an allocation. */
import { useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { client, unwrap } from "../../api/client";
import type { Allocation } from "../../api/types";
import { learn } from "../../api/watches";
import { nameOf } from "../../lib/allocation-name";
import { Button } from "../../ui/basics";
import { Confirm } from "../../ui/dialog";
import { TextField } from "../catalog/parts";

const MOST = 200;

export function nameProblem(name: string): string | undefined {
  return [...name.trim()].length > MOST ? `At most ${MOST} characters.` : undefined;
}

/** A name that is typed, with the etag of the allocation that it was typed for. */
type Draft = Pick<Allocation, "display_name" | "etag">;

export function Rename({ allocation }: { allocation: Allocation }) {
  const queries = useQueryClient();
  const [draft, setDraft] = useState<Draft>();
  const { display_name: name = "", etag } = draft ?? allocation;
  const wrong = nameProblem(name);
  const run = async () => {
    const call = client.PATCH("/api/v1/allocations/{allocation_id}", { params: { path: { allocation_id: allocation.id ?? "" } }, body: { display_name: name.trim(), etag } });
    learn(queries, await unwrap(call));
    void queries.invalidateQueries({ queryKey: ["allocations"] });
  };
  return (
    <Confirm trigger={<Button small>Rename</Button>} title={`Rename ${nameOf(allocation)}`} action="Rename" ready={!wrong} reset={() => setDraft(undefined)} run={run}>
      <p>
        Its host name <code>{allocation.config?.name}</code> stays.
      </p>
      <TextField label="Display name" value={name} onChange={(display_name) => setDraft({ display_name, etag })} problem={wrong} hint="Empty: the host name is shown." />
    </Confirm>
  );
}
