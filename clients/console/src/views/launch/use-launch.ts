/** Asks the API what would become of a launch, and launches. */
import { useMutation, useQuery } from "@tanstack/react-query";
import { useEffect, useState } from "react";
import { client, unwrap } from "../../api/client";
import { Problem } from "../../api/problem";
import type { Allocation, CreateAllocation } from "../../api/types";
import { useAttempt } from "../../ui/use-attempt";
import { waitFor } from "./choice";

const SETTLED_MS = 400;

/** One allocation or several of the same, which are launched together or not at all. */
export interface Order {
  project_id: string | undefined;
  names: string[];
  each: Omit<CreateAllocation, "name" | "project_id" | "validate_only" | "wait">;
  /** Hours for which it may wait in line; nothing: it does not. */
  waitHours: number | undefined;
}

type How = { validate_only: true } | { wait?: { deadline: string } };

/** Asks the API; `how` says whether to judge only. A key names the attempt. */
export async function send({ project_id, names, each }: Order, how: How, key?: string): Promise<Allocation[]> {
  const params = key ? { header: { "X-Idempotency-Key": key } } : {};
  const [name = ""] = names;
  if (names.length === 1) return [await unwrap(client.POST("/api/v1/allocations", { params, body: { ...each, name, project_id, ...how } }))];
  const allocations = names.map((one) => ({ ...each, name: one }));
  const call = client.POST("/api/v1/allocations:batchCreate", { params, body: { project_id, allocations, ...how } });
  const made = await unwrap(call).catch((error: unknown) => {
    throw error instanceof Problem ? error.withNames(names) : error;
  });
  return made.allocations ?? [];
}

/** Whether a text has stayed the same for a moment, as when somebody has stopped typing. */
function useIsSettled(text: string): boolean {
  const [settled, setSettled] = useState("");
  useEffect(() => {
    const timer = setTimeout(() => setSettled(text), SETTLED_MS);
    return () => clearTimeout(timer);
  }, [text]);
  return settled === text;
}

/** The server's own judgement before anything is launched, while `judge` says that it is worth asking; and the launch. */
export function useLaunch(order: Order, judge: boolean, done: (made: Allocation[]) => void) {
  const text = JSON.stringify(order);
  const judging = useIsSettled(text) && judge;
  const judged = useQuery({
    queryKey: ["validate", text],
    enabled: judging,
    retry: false,
    queryFn: () => send(order, { validate_only: true }),
  });
  const attempt = useAttempt(text, () => (order.waitHours === undefined ? {} : { wait: waitFor(order.waitHours, Date.now()) }));
  const launch = useMutation({
    mutationFn: () => {
      const { key, ...how } = attempt();
      return send(order, how, key);
    },
    onSuccess: done,
  });
  // a refusal belongs to what was asked for
  useEffect(() => launch.reset(), [text]);
  return {
    launch: () => !launch.isPending && launch.mutate(),
    busy: launch.isPending,
    problem: launch.error ?? (judging ? judged.error : null),
    /** Where it would fit with all that was chosen; of one allocation only. */
    placement: judging ? judged.data?.[0]?.placement : undefined,
  };
}
