/** What the VM of an allocation uses. */
import { keepPreviousData, useQuery } from "@tanstack/react-query";
import { client, unwrap } from "./client";

/** The host measures as often. */
const SAMPLE_MS = 15_000;

/** The last `range` milliseconds, as they are now; while `wanted`. */
export function useMetrics(allocation_id: string, range: number, wanted: boolean) {
  return useQuery({
    queryKey: ["metrics", allocation_id, range],
    enabled: wanted,
    queryFn: async () => {
      const to = Date.now();
      const query = { start_time: new Date(to - range).toISOString(), end_time: new Date(to).toISOString() };
      const { series = [], step_seconds = 0, guest_message = "" } = await unwrap(client.GET("/api/v1/allocations/{allocation_id}/metrics", { params: { path: { allocation_id }, query } }));
      return { series, step: step_seconds, message: guest_message, from: to - range, to };
    },
    placeholderData: keepPreviousData,
    refetchInterval: SAMPLE_MS,
  });
}
