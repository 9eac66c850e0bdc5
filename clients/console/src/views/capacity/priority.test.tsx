import { ApiError } from "@gpuaas/sdk";
import { QueryClient, QueryClientProvider } from "@tanstack/react-query";
import { renderToStaticMarkup } from "react-dom/server";
import { beforeAll, afterEach, expect, it, vi } from "vitest";
import { signInAs } from "../../session/fixture";
import { putProjectPriority } from "../../api/capacity";
import { client } from "../../api/client";
import type { QueuedRequest } from "../../api/types";
import { Row, once } from "./queue";
import { projectText, setText } from "./priority";

beforeAll(() => signInAs("operator"));

const ID = "0198c0de-1111-7000-8000-000000000001";

afterEach(() => vi.restoreAllMocks());

it("the message confirms what the server has set, and names the project", () => {
  expect(setText({ project_id: ID, priority: "high" })).toBe(`Project ${ID} now has high priority. This includes its queued requests.`);
  expect(setText({ project_id: ID, priority: "low" }, [{ id: ID, slug: "demo" }])).toContain("Project demo now has low priority");
  expect(projectText(ID, [{ id: "other", slug: "demo" }])).toBe(ID);
  expect(projectText(ID, [{ id: "other", slug: "demo" }, { id: ID, slug: "demo" }])).toBe(ID);
});

it("a priority is set on the project, and a refusal names the field", async () => {
  const put = vi.spyOn(client, "PUT");
  put.mockResolvedValueOnce({ data: { project_id: ID, priority: "high" }, response: new Response() } as never);
  await expect(putProjectPriority(ID, "high", "7")).resolves.toEqual({ project_id: ID, priority: "high" });
  expect(put).toHaveBeenCalledWith("/api/v1/admin/projects/{project_id}/priority", { params: { path: { project_id: ID } }, body: { priority: "high", etag: "7" } });
  const error = { error: { message: "project_id must be a UUID.", details: [{ field_violations: [{ field: "project_id", description: "must be a UUID" }] }] } };
  put.mockRejectedValueOnce(new ApiError(400, error, new Headers()));
  const refused = await putProjectPriority("nobody", "low").catch((problem: unknown) => problem);
  expect(refused).toMatchObject({ status: 400, message: "project_id must be a UUID.", fields: [{ field: "project_id" }] });
});

it("a queued request shows its priority, which can be changed for exactly its project", () => {
  const request: QueuedRequest = { position: 1, slot_class: "lab", project_id: ID, priority: "high", gpus: 4, allocation_ids: ["a", "b"], reason: "SLOTS_IN_USE", backfill_node_ids: ["n"] };
  const shown = renderToStaticMarkup(
    <QueryClientProvider client={new QueryClient()}>
      <table>
        <tbody>
          <Row request={request} hosts={new Map([["n", "gpu-07"]])} notify={() => {}} />
        </tbody>
      </table>
    </QueryClientProvider>,
  );
  for (const text of ["lab", "High", "4 GPUs", "in 2 allocations", "gpu-07", `aria-label="Change the priority of project ${ID}"`]) expect(shown).toContain(text);
});

it("a request that moved between two pages is shown once, where it was first", () => {
  const at = (position: number, id: string): QueuedRequest => ({ position, allocation_ids: [id] });
  expect(once([at(1, "a"), at(2, "b"), at(3, "a"), at(4, "c")]).map(({ position }) => position)).toEqual([1, 2, 4]);
});
