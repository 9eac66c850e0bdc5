/** Asks the API what would become of a launch, and launches. */
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useEffect, useRef, useState } from "react";
import { client, unwrap } from "../../api/client";
import { Problem, isOfPlace } from "../../api/problem";
import type { Allocation, CreateAllocation } from "../../api/types";
import { useAttempt } from "../../ui/use-attempt";
import { waitFor } from "./choice";
import type { Judged } from "./parts";

const SETTLED_MS = 400;
const SLOW_MS = 5000;

/** One allocation or several of the same, which are launched together or not at all. */
export interface Order {
  project_id: string | undefined;
  names: string[];
  each: Omit<CreateAllocation, "name" | "project_id" | "validate_only" | "wait">;
  /** Hours for which it may wait in line; nothing: it does not. */
  waitHours: number | undefined;
}

interface How {
  validate_only?: boolean;
  wait?: { deadline: string };
}

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

/** What decides where it fits: a name or a key that is typed does not. */
function placeOf({ names, each: { region_code, sku, gpu_count, image, placement }, waitHours }: Order): string {
  return JSON.stringify([names.length, region_code, sku, gpu_count, image, placement, waitHours !== undefined]);
}

/** What a judgement says of where an order fits; nothing, when it says nothing of it. */
export function judgedOf({ names, waitHours }: Order, answer: Allocation[] | undefined): Judged | undefined {
  const placement = answer?.[0]?.placement;
  if (placement) return { fits: (placement.nodes_fit ?? 0) > 0, placement };
  // several would be launched as they are; of several that may wait it is not told whether they would have to
  return answer && names.length > 1 && waitHours === undefined ? { fits: true } : undefined;
}

/** How the server is asked: a launch that may wait is judged as one. */
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
 * The server's own judgement before anything is launched, while `judge` says that it is worth asking; and the launch. `room` is what is
 * known of free capacity, as a text: when it changes and there is some, a refusal for want of it is asked for again.
 */
export function useLaunch(order: Order, judge: boolean, room: string, done: (made: Allocation[]) => void) {
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
    // as what is free is looked at, until it is refused, which is told once; several are tried on the ledger itself, which is not
    // done again and again
    refetchInterval: ({ state }) => order.names.length === 1 && state.status === "success" && SLOW_MS,
  });
  // what was counted stands while a name or a key is typed
  const place = placeOf(order);
  const counted = useRef<{ place: string; judged: Judged | undefined }>(undefined);
  if (judging && isOfPlace(judged.error)) counted.current = undefined;
  else if (judging && judged.data) counted.current = { place, judged: judgedOf(order, judged.data) };
  // a refusal belongs to what was asked for
  useEffect(() => launch.reset(), [text]);
  const again = () => {
    if (isOfPlace(launch.error)) launch.reset();
    if (judging && (isOfPlace(judged.error) || order.names.length > 1)) void judged.refetch();
  };
  useEffect(() => {
    if (judge) again();
  }, [room]);
  const problem = launch.error ?? (judging ? judged.error : null);
  // what was explained before a refusal is over
  useEffect(() => {
    if (isOfPlace(problem)) void queries.invalidateQueries({ queryKey: ["explanation"] });
  }, [problem]);
  return {
    again,
    launch: () => !launch.isPending && launch.mutate(),
    busy: launch.isPending,
    problem,
    /** Where it would fit with all that was chosen. */
    judged: counted.current?.place === place ? counted.current.judged : undefined,
  };
}
