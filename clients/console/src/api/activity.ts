/** Queries of the activity of a project. */
import type { components, paths } from "@gpuaas/sdk";
import { useInfiniteQuery, useQuery } from "@tanstack/react-query";
import { client, unwrap } from "./client";

export type Activity = components["schemas"]["audit.Activity"];

/** What to match; empty ones match all. */
export interface ActivityFilter {
  kind: string;
  actor: string;
  outcome: "" | "allowed" | "denied";
  start_time: string;
  end_time: string;
}

const PATH = "/api/v1/projects/{project_id}/activities";
type ActivityQuery = NonNullable<paths[typeof PATH]["get"]["parameters"]["query"]>;

function page(project_id: string, query: object) {
  return unwrap(client.GET(PATH, { params: { path: { project_id }, query: query as ActivityQuery } }));
}

/** The activities that match, newest first, page by page. */
export function useActivities(project_id: string, filter: ActivityFilter) {
  const query = Object.fromEntries(Object.entries(filter).filter(([, value]) => value !== ""));
  return useInfiniteQuery({
    queryKey: ["activities", project_id, query],
    queryFn: ({ pageParam }) => page(project_id, { ...query, page_size: 50, page_token: pageParam }),
    initialPageParam: "",
    getNextPageParam: (last) => last.next_page_token || undefined,
    enabled: project_id !== "",
  });
}

/** The latest few. */
export function useLatestActivities(project_id: string, page_size: number) {
  return useQuery({
    queryKey: ["activities", project_id, "latest"],
    queryFn: () => page(project_id, { page_size }),
    enabled: project_id !== "",
    refetchInterval: 30_000,
  });
}
