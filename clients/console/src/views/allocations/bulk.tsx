/** Actions on several allocations at once. Each is a request of its own; those that fail stay selected. */
import { useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { client, unwrap } from "../../api/client";
import type { Allocation } from "../../api/types";
import { learn } from "../../api/watches";
import { plural } from "../../lib/text";
import { Button } from "../../ui/basics";
import { Confirm } from "../../ui/dialog";
import { ProblemNote } from "../../ui/problem";
import { VERBS, type Verb, open } from "./selection";

const WORDS: Record<Verb, string> = { start: "Start", stop: "Stop", release: "Release" };
const MEANINGS: Record<Verb, string> = {
  start: "Their VMs start.",
  stop: "Their VMs are shut down and keep disk and address. Billing continues, because their GPUs stay allocated.",
  release: "Billing stops at once. Their VMs are deleted and their disks wiped: all data on them is lost. This cannot be undone.",
};

function change(verb: Verb, allocation_id: string): Promise<Allocation> {
  return unwrap(client.POST(`/api/v1/allocations/{allocation_id}:${verb}`, { params: { path: { allocation_id } }, body: {} }));
}

export function BulkActions({ selected, keep }: { selected: Allocation[]; /** Leaves only these ids selected. */ keep: (ids: string[]) => void }) {
  const queries = useQueryClient();
  const [failed, setFailed] = useState<{ name: string; error: unknown }[]>([]);
  const run = async (verb: Verb) => {
    const asked = open(verb, selected);
    const done = await Promise.allSettled(asked.map(({ id = "" }) => change(verb, id)));
    const wrong = done.flatMap((result, index) => (result.status === "rejected" ? [{ allocation: asked[index]!, error: result.reason as unknown }] : []));
    for (const result of done) if (result.status === "fulfilled") learn(queries, result.value);
    void queries.invalidateQueries({ queryKey: ["allocations"] });
    setFailed(wrong.map(({ allocation, error }) => ({ name: allocation.config?.name ?? "", error })));
    keep(wrong.map(({ allocation }) => allocation.id ?? ""));
  };
  return (
    <>
      {selected.length > 0 && (
        <div className="bulk" role="group" aria-label="Selected allocations">
          <span role="status">{selected.length} selected</span>
          {VERBS.map((verb) => {
            const asked = open(verb, selected);
            const names = asked.map(({ config }) => config?.name).join(", ");
            return (
              <Confirm
                key={verb}
                danger={verb === "release"}
                trigger={
                  <Button small kind={verb === "release" ? "danger" : "plain"} disabled={asked.length === 0}>
                    {WORDS[verb]} {asked.length > 0 && asked.length}
                  </Button>
                }
                title={`${WORDS[verb]} ${plural(asked.length, "allocation")}?`}
                action={WORDS[verb]}
                run={() => run(verb)}
              >
                <p>
                  <strong>{names}</strong>
                </p>
                <p>{MEANINGS[verb]}</p>
              </Confirm>
            );
          })}
          <Button small kind="quiet" onClick={() => keep([])}>
            Clear
          </Button>
        </div>
      )}
      {failed.map(({ name, error }) => (
        <div key={name}>
          <p>
            <strong>{name}</strong>
          </p>
          <ProblemNote error={error} />
        </div>
      ))}
    </>
  );
}
