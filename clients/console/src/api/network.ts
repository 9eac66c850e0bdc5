/** Query and mutation of a project's network setting. */
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { client, unwrap } from "./client";

const KEY = "project-network";

export function useProjectNetwork(project_id: string) {
  return useQuery({
    queryKey: [KEY, project_id],
    queryFn: () => unwrap(client.GET("/api/v1/project-network", { params: { query: { project_id } } })),
  });
}

/** Whether VMs of the project that are on one host reach each other. */
export function useSetProjectNetwork(project_id: string) {
  const queries = useQueryClient();
  return useMutation({
    mutationFn: ({ vms_reach_each_other, etag }: { vms_reach_each_other: boolean; /** Of the setting that was read. */ etag: string | undefined }) => unwrap(client.PUT("/api/v1/project-network", { body: { project_id, vms_reach_each_other, etag } })),
    onSuccess: () => queries.invalidateQueries({ queryKey: [KEY] }),
  });
}
