import { QueryClient } from "@tanstack/react-query";
import type { ReactElement, ReactNode } from "react";
import { beforeEach, expect, it, vi } from "vitest";
import { partOf } from "../../ui/fixture";
import { SetPriority } from "../capacity/priority";
import { LimitButton } from "./limit";

const kept = await vi.hoisted(async () => (await import("../../ui/fixture")).keptState());
vi.mock("react", async (original) => ({ ...(await original<object>()), useState: kept.useState }));
const api = vi.hoisted(() => ({ queries: undefined as unknown, read: {} as Record<string, object>, failure: undefined as unknown, refetch: vi.fn(), limit: vi.fn(), priority: vi.fn() }));
vi.mock("@tanstack/react-query", async (original) => ({ ...(await original<object>()), useQueryClient: () => api.queries }));
vi.mock("../../api/queries", async (original) => ({ ...(await original<object>()), useProjects: () => [{ id: "p", slug: "vision" }, { id: "q", slug: "audio" }] }));
vi.mock("../../api/capacity", async (original) => {
  const read = (id: string) => ({ data: api.read[id], error: api.failure, isLoading: false, refetch: api.refetch });
  return { ...(await original<object>()), useReservationLimit: read, useProjectPriority: read, putReservationLimit: api.limit, putProjectPriority: api.priority };
});

interface Dialog {
  ready: boolean;
  run: () => Promise<void>;
  reset?: (reloaded: boolean) => void;
}

beforeEach(() => {
  kept.forget();
  vi.clearAllMocks();
  api.queries = new QueryClient();
  api.failure = undefined;
  api.read = { p: { max_gpus: 4, reserved_gpus: 2, priority: "low", etag: "e1" }, q: { max_gpus: 8, priority: "high", etag: "q1" } };
});

/** The dialog for a limit, as it is now. */
function limits() {
  const drawn = () => kept.drawn(() => LimitButton({ notify: () => undefined }));
  return {
    drawn,
    choose: (project: string) => partOf<{ onChange: (value: string) => void }>(drawn(), "onChange")?.onChange(project),
    type: (value: string) => {
      const field = partOf<{ hint: string; children: (of: object) => ReactElement<{ onChange: (event: object) => void }> }>(drawn(), "hint");
      field?.children({}).props.onChange({ target: { value } });
    },
    dialog: () => partOf<Dialog>(drawn(), "run"),
  };
}

it("a limit that somebody else set after the number was typed is not overwritten, and is once the reader has seen it", async () => {
  const { drawn, choose, type, dialog } = limits();
  choose("p");
  expect(JSON.stringify(drawn())).toContain("Now 4 GPUs; 2 reserved.");
  type("16");
  expect(dialog()?.ready).toBe(true);
  api.read.p = { max_gpus: 32, reserved_gpus: 2, etag: "e2" };
  type("17");
  api.limit.mockRejectedValueOnce(new Error("stale"));
  await expect(dialog()?.run()).rejects.toThrow("stale");
  expect(api.limit).toHaveBeenLastCalledWith("p", 17, "e1");
  dialog()?.reset?.(true);
  expect(dialog()?.ready).toBe(true);
  expect(JSON.stringify(drawn())).toContain("Now 32 GPUs");
  api.limit.mockResolvedValueOnce({ max_gpus: 17 });
  await dialog()?.run();
  expect(api.limit).toHaveBeenLastCalledWith("p", 17, "e2");
  // the next time that it is opened
  dialog()?.reset?.(false);
  expect(dialog()?.ready).toBe(false);
});

it("another project has its own etag, and nothing is sent before what is set now was read", async () => {
  const { choose, type, dialog } = limits();
  type("16");
  choose("p");
  dialog();
  choose("q");
  api.limit.mockResolvedValueOnce({});
  await dialog()?.run();
  expect(api.limit).toHaveBeenLastCalledWith("q", 16, "q1");
  delete api.read.q;
  expect(dialog()?.ready).toBe(false);
});

/** What is said of the read, and what reads it again. */
const noteOf = (drawn: ReactNode) => partOf<{ error: unknown; retry: () => void }>(drawn, "error");

it("nothing is sent where what is set now could not be read, which is said", () => {
  const { drawn, choose, type, dialog } = limits();
  choose("p");
  type("16");
  expect([dialog()?.ready, noteOf(drawn())]).toEqual([true, undefined]);
  api.read = {};
  api.failure = new Error("gone");
  expect([dialog()?.ready, noteOf(drawn())?.error]).toEqual([false, api.failure]);
  noteOf(drawn())?.retry();
  expect(api.refetch).toHaveBeenCalledOnce();
  kept.forget();
  const priority = () => kept.drawn(() => SetPriority({ project: "p", trigger: null, notify: () => undefined }));
  const set = () => partOf<Dialog>(priority(), "run");
  set()?.reset?.(false);
  partOf<{ onChoose: (value: string) => void }>(priority(), "onChoose")?.onChoose("high");
  expect([set()?.ready, noteOf(priority())?.error]).toEqual([false, api.failure]);
});

it("a priority that somebody else set after one was chosen is not overwritten", async () => {
  const drawn = () => kept.drawn(() => SetPriority({ project: "p", trigger: null, notify: () => undefined }));
  const dialog = () => partOf<Dialog>(drawn(), "run");
  const choose = (value: string) => partOf<{ onChoose: (value: string) => void }>(drawn(), "onChoose")?.onChoose(value);
  dialog()?.reset?.(false);
  choose("high");
  dialog();
  api.read.p = { priority: "normal", etag: "e2" };
  api.priority.mockRejectedValueOnce(new Error("stale"));
  await expect(dialog()?.run()).rejects.toThrow("stale");
  expect(api.priority).toHaveBeenLastCalledWith("p", "high", "e1");
  dialog()?.reset?.(true);
  expect(dialog()?.ready).toBe(true);
  api.priority.mockResolvedValueOnce({ project_id: "p", priority: "high" });
  await dialog()?.run();
  expect(api.priority).toHaveBeenLastCalledWith("p", "high", "e2");
});
