/** Dry run of a launch, and the launch. */
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useEffect, useRef, useState } from "react";
import { client, unwrap } from "../../api/client";
import { Problem, isUnschedulable } from "../../api/problem";
import type { Allocation, CreateAllocation } from "../../api/types";
import { useAttempt } from "../../ui/use-attempt";
import { waitFor } from "./choice";
import type { Judged } from "./parts";

const SETTLED_MS = 400;
const SLOW_MS = 5000;

/** One or several equal allocations, launched all or none. */
export interface Order {
  project_id: string | undefined;
  names: string[];
  each: Omit<CreateAllocation, "name" | "project_id" | "validate_only" | "wait">;
  /** Hours that it may stay queued; undefined: it is not queued. */
  waitHours: number | undefined;
}

interface How {
  validate_only?: boolean;
  wait?: { deadline: string };
}

/** Sends the request; `how` selects a dry run or the queue. The key identifies the attempt. */
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

/** Everything that placement depends on, without the name and the keys. */
function placementKeyOf({ names, each: { region_code, sku, gpu_count, image, placement }, waitHours }: Order): string {
  return JSON.stringify([names.length, region_code, sku, gpu_count, image, placement, waitHours !== undefined]);
}

/** The fit that a dry run reports; undefined when it reports none. */
export function judgedOf({ names, waitHours }: Order, answer: Allocation[] | undefined): Judged | undefined {
  const placement = answer?.[0]?.placement;
  if (placement) return { fits: (placement.nodes_fit ?? 0) > 0, placement };
  // a dry run of several that may be queued does not report whether they would be
  return answer && names.length > 1 && waitHours === undefined ? { fits: true } : undefined;
}

/** The queue options of the request. */
function howOf(waitHours: number | undefined): { wait?: { deadline: string } } {
  return waitHours === undefined ? {} : { wait: waitFor(waitHours, Date.now()) };
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

/**
 * A dry run by the server while `judge` is set, and the launch. `capacity` is the known free capacity as a text: when it changes, an
 * unschedulable dry run is repeated.
 */
export function useLaunch(order: Order, judge: boolean, capacity: string, done: (made: Allocation[]) => void) {
  const queries = useQueryClient();
  const text = JSON.stringify(order);
  const judging = useIsSettled(text) && judge;
  const attempt = useAttempt(text, () => howOf(order.waitHours));
  const launch = useMutation({
    mutationFn: () => {
      const { key, ...how } = attempt();
      return send(order, how, key);
    },
    onSuccess: done,
  });
  const judged = useQuery({
    queryKey: ["validate", text],
    // while it is launched, its own name would be taken
    enabled: judging && !launch.isPending,
    retry: false,
    queryFn: () => send(order, { validate_only: true, ...howOf(order.waitHours) }),
    // repeated until it is refused; several run as a transaction on the ledger, which is too costly to repeat
    refetchInterval: ({ state }) => order.names.length === 1 && state.status === "success" && SLOW_MS,
  });
  // the result stays while a name or a key is typed
  const key = placementKeyOf(order);
  const counted = useRef<{ key: string; judged: Judged | undefined }>(undefined);
  if (judging && isUnschedulable(judged.error)) counted.current = undefined;
  else if (judging && judged.data) counted.current = { key, judged: judgedOf(order, judged.data) };
  // an error belongs to the request that caused it
  useEffect(() => launch.reset(), [text]);
  const again = () => {
    if (isUnschedulable(launch.error)) launch.reset();
    if (judging && (isUnschedulable(judged.error) || order.names.length > 1)) void judged.refetch();
  };
  useEffect(() => {
    if (judge) again();
  }, [capacity]);
  const problem = launch.error ?? (judging ? judged.error : null);
  // the refusal makes earlier explanations stale
  useEffect(() => {
    if (isUnschedulable(problem)) void queries.invalidateQueries({ queryKey: ["explanation"] });
  }, [problem]);
  return {
    again,
    launch: () => !launch.isPending && launch.mutate(),
    busy: launch.isPending,
    problem,
    /** Where it fits with all choices. */
    judged: counted.current?.key === key ? counted.current.judged : undefined,
  };
}
