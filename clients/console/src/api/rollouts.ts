/** Queries and mutations of rollouts of the node agent. */
import { useInfiniteQuery, useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { client, unwrap } from "./client";
import type { AgentRollout } from "./types";

const CALM_MS = 2000;
const SLOW_MS = 5000;
const PAGE = 50;

/** Those that a filter of the API selects, newest first, page by page, without waves. */
export function useRollouts(filter: string) {
  return useInfiniteQuery({
    queryKey: ["agent-rollouts", filter],
    queryFn: ({ pageParam }) => unwrap(client.GET("/api/v1/admin/agent-rollouts", { params: { query: { page_size: PAGE, page_token: pageParam, ...(filter && { filter }) } } })),
    initialPageParam: "",
    getNextPageParam: (last) => last.next_page_token || undefined,
    refetchInterval: SLOW_MS,
  });
}

/** One, with the state of every node. */
export function useRollout(rollout_id: string) {
  return useQuery({
    queryKey: ["agent-rollout", rollout_id],
    queryFn: () => unwrap(client.GET("/api/v1/admin/agent-rollouts/{rollout_id}", { params: { path: { rollout_id } } })),
    refetchInterval: CALM_MS,
  });
}

/** Shows the answer of a mutation at once and refreshes the list. */
function useLearn(): (rollout: AgentRollout) => void {
  const queries = useQueryClient();
  return (rollout) => {
    queries.setQueryData(["agent-rollout", rollout.id], rollout);
    void queries.invalidateQueries({ queryKey: ["agent-rollouts"] });
  };
}

export interface NewRollout {
  key: string;
  version: string;
  digest: string;
  size_bytes: string;
  max_failures: number;
  reason: string;
}

export function useCreateRollout() {
  return useMutation({
    mutationFn: ({ key, ...body }: NewRollout) => unwrap(client.POST("/api/v1/admin/agent-rollouts", { params: { header: { "X-Idempotency-Key": key } }, body })),
    onSuccess: useLearn(),
  });
}

/** What an operator makes of a rollout that was read. */
export function useChangeRollout({ id: rollout_id = "", etag = "" }: AgentRollout) {
  const learn = useLearn();
  const path = { params: { path: { rollout_id } } };
  const options = { onSuccess: learn };
  return {
    pause: useMutation({ mutationFn: (reason: string) => unwrap(client.POST("/api/v1/admin/agent-rollouts/{rollout_id}:pause", { ...path, body: { reason } })), ...options }),
    resume: useMutation({
      mutationFn: ({ reason, retry_failed }: { reason: string; retry_failed: boolean }) => unwrap(client.POST("/api/v1/admin/agent-rollouts/{rollout_id}:resume", { ...path, body: { reason, retry_failed, etag } })),
      ...options,
    }),
    abort: useMutation({ mutationFn: (reason: string) => unwrap(client.POST("/api/v1/admin/agent-rollouts/{rollout_id}:abort", { ...path, body: { reason } })), ...options }),
    rollback: useMutation({ mutationFn: (reason: string) => unwrap(client.POST("/api/v1/admin/agent-rollouts/{rollout_id}:rollback", { ...path, body: { reason } })), ...options }),
  };
}
