import { afterEach, expect, it, vi } from "vitest";
import type { AuditRecord } from "../../api/audit";
import { client } from "../../api/client";
import { digestOf } from "../../lib/audit-chain";
import { MOST_IN_MEMORY } from "../../lib/sink";
import { exportTrail, saveTrail, verifyTrail } from "./trail-work";

const ZERO = "0".repeat(64);
const never = new AbortController().signal;
afterEach(() => {
  vi.restoreAllMocks();
  vi.unstubAllGlobals();
});

async function chain(source: string, count: number): Promise<AuditRecord[]> {
  const made: AuditRecord[] = [];
  let before = ZERO;
  for (let position = 1; position <= count; position++) {
    const record: AuditRecord = { id: `${source}-${position}`, source, position: String(position), detail: "{}" };
    before = await digestOf(before, record);
    made.push({ ...record, digest: before });
  }
  return made;
}

/** The API with these chains, two records a page. */
function played(chains: Record<string, AuditRecord[]>, unreachable_sources: string[] = []) {
  const start = { position: "0", digest: ZERO };
  vi.spyOn(client, "GET").mockImplementation((async (path: string, { params }: { params?: { path: { source: string }; query: { after_position: string } } }) => {
    if (path.endsWith("/chains")) return { data: { chains: Object.entries(chains).map(([source, all]) => ({ source, start, head: { position: String(all.length), digest: all.at(-1)?.digest ?? ZERO } })), unreachable_sources } };
    const all = chains[params?.path.source ?? ""] ?? [];
    const from = all.findIndex(({ position }) => Number(position) > Number(params?.query.after_position));
    return { data: { start, records: from < 0 ? [] : all.slice(from, from + 2) } };
  }) as never);
}

it("every page of every source is verified, and progress is told", async () => {
  const edge = await chain("edge", 5);
  played({ edge: edge.map((record, index) => (index === 3 ? { ...record, detail: "{ }" } : record)), billing: await chain("billing", 1), images: [] });
  const told: unknown[] = [];
  const { chains, findings } = await verifyTrail([], (...progress) => told.push(progress), never);
  expect(chains.map(({ source, records, findings }) => [source, records, findings.length])).toEqual([["edge", 5, 1], ["billing", 1, 0], ["images", 0, 0]]);
  expect(findings).toEqual([expect.stringContaining("edge: record edge-4 at position 4 does not match its digest")]);
  expect(told.slice(0, 2)).toEqual([["edge", 2, 6], ["edge", 4, 6]]);
});

it("a noted head whose chain was not read is a finding: its source is not listed any more, or mistyped", async () => {
  const [edge, billing] = [await chain("edge", 2), await chain("billing", 1)];
  const headOf = (source: string, all: AuditRecord[]) => ({ source, position: all.length, digest: all.at(-1)?.digest ?? "" });
  const noted = [headOf("edge", edge), headOf("billing", billing), headOf("egde", edge)];
  played({ edge });
  const { chains, findings } = await verifyTrail(noted, () => undefined, never);
  expect(chains.map(({ source, findings }) => [source, findings])).toEqual([["edge", []]]);
  expect(findings).toEqual([`billing: the chain is missing; checkpoint billing:1:${noted[1]?.digest} is expected`, `egde: the chain is missing; checkpoint egde:2:${noted[2]?.digest} is expected`]);
});

/** A file of the reader's that takes pieces; `full` after so many. */
function filed(full = Number.POSITIVE_INFINITY) {
  const file = {
    pieces: [] as string[],
    close: vi.fn(async () => undefined),
    abort: vi.fn(async () => undefined),
    write: async (text: string) => {
      if (file.pieces.push(text) > full) throw new Error("the disk is full");
    },
  };
  vi.stubGlobal("showSaveFilePicker", async () => ({ createWritable: async () => file }));
  return file;
}

it("an export has what the command's has, and can be of one source", async () => {
  const edge = await chain("edge", 3);
  played({ edge, billing: await chain("billing", 1) });
  let text = "";
  const write = async (more: string) => void (text += more);
  expect(await exportTrail("edge", write, () => undefined, never)).toBe(3);
  expect(text.trim().split("\n").map((line) => JSON.parse(line) as unknown)).toEqual([{ source: "edge", start: { position: "0", digest: ZERO } }, ...edge]);
  text = "";
  await exportTrail("", write, () => undefined, never);
  expect(text.trim().split("\n")).toHaveLength(6);
});

it("an export is written page by page, each before the next is read", async () => {
  played({ edge: await chain("edge", 5) });
  const file = filed();
  const seen: number[] = [];
  expect(await saveTrail("", "audit.jsonl", () => seen.push(file.pieces.length), never)).toEqual({ saved: 5 });
  expect(seen).toEqual([1, 2, 3, 3]);
  expect(file.pieces.map((piece) => piece.trim().split("\n").length)).toEqual([3, 2, 1]);
  expect([file.close.mock.calls.length, file.abort.mock.calls.length]).toEqual([1, 0]);
});

it("where a file may not be chosen, how much the browser keeps is told with the progress", async () => {
  played({ edge: await chain("edge", 5) });
  vi.stubGlobal("showSaveFilePicker", async () => {
    throw new DOMException("no", "SecurityError");
  });
  const most: (number | undefined)[] = [];
  const stop = new AbortController();
  const told = (_source: string, _read: number, _total: number, bytes?: number) => {
    most.push(bytes);
    stop.abort();
  };
  await expect(saveTrail("", "audit.jsonl", told, stop.signal)).rejects.toThrow("abort");
  expect(most).toEqual([MOST_IN_MEMORY]);
});

it("what was written of an export that fails or is stopped is thrown away", async () => {
  played({ edge: await chain("edge", 5) });
  const file = filed(1);
  await expect(saveTrail("", "audit.jsonl", () => undefined, never)).rejects.toThrow("the disk is full");
  expect([file.close.mock.calls.length, file.abort.mock.calls.length]).toEqual([0, 1]);
  const stop = new AbortController();
  const stopped = filed();
  await expect(saveTrail("", "audit.jsonl", () => stop.abort(), stop.signal)).rejects.toThrow("abort");
  expect([stopped.pieces.length, stopped.close.mock.calls.length, stopped.abort.mock.calls.length]).toEqual([1, 0, 1]);
});

it("what is left out proves nothing: a source that does not answer, an order that does not go on, and a stop end it", async () => {
  played({ edge: await chain("edge", 1) }, ["billing"]);
  await expect(verifyTrail([], () => undefined, never)).rejects.toThrow("billing did not answer");
  const one = await chain("edge", 1);
  vi.restoreAllMocks();
  vi.spyOn(client, "GET").mockImplementation((async (path: string) => ({ data: path.endsWith("/chains") ? { chains: [{ source: "edge", head: { position: "1" } }] } : { start: { position: "0", digest: ZERO }, records: one } })) as never);
  await expect(verifyTrail([], () => undefined, never)).rejects.toThrow("out of order");
  await expect(verifyTrail([], () => undefined, AbortSignal.abort())).rejects.toThrow("abort");
});
