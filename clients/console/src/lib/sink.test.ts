import { afterEach, expect, it, vi } from "vitest";
import { MOST_IN_MEMORY, canStream, memorySink, openSink } from "./sink";

const saved = vi.hoisted(() => ({ file: vi.fn() }));
vi.mock("./csv", () => ({ saveFile: saved.file }));
afterEach(() => {
  vi.unstubAllGlobals();
  saved.file.mockReset();
});

/** A browser that has the File System Access API, and what came into its file. */
function browser(refusal?: DOMException) {
  const file = { write: vi.fn(async (_: string) => undefined), close: vi.fn(), abort: vi.fn() };
  const pick = vi.fn(async () => {
    if (refusal) throw refusal;
    return { createWritable: async () => file };
  });
  vi.stubGlobal("showSaveFilePicker", pick);
  return { file, pick };
}

it("what is written goes to the file at once, and nothing is kept", async () => {
  const { file, pick } = browser();
  expect(canStream()).toBe(true);
  const sink = await openSink("a.jsonl", "application/jsonl");
  expect(sink?.most).toBeUndefined();
  await sink?.write("one\n");
  expect(file.write.mock.calls).toEqual([["one\n"]]);
  await sink?.close();
  expect([pick.mock.calls, file.close.mock.calls.length, saved.file.mock.calls.length]).toEqual([[[{ suggestedName: "a.jsonl" }]], 1, 0]);
  await sink?.abort();
  expect(file.abort).toHaveBeenCalledOnce();
});

it("who chooses no file gets none, and where choosing one is forbidden it is saved as a download", async () => {
  browser(new DOMException("cancelled", "AbortError"));
  expect(await openSink("a.jsonl", "application/jsonl")).toBeUndefined();
  browser(new DOMException("not writable", "NotAllowedError"));
  expect(await openSink("a.jsonl", "application/jsonl")).toBeUndefined();
  browser(new DOMException("no", "SecurityError"));
  const sink = await openSink("a.jsonl", "application/jsonl");
  expect(sink?.most).toBe(MOST_IN_MEMORY);
  await sink?.write("one\n");
  await sink?.close();
  expect(saved.file).toHaveBeenCalledOnce();
  browser(new DOMException("full", "QuotaExceededError"));
  await expect(openSink("a.jsonl", "application/jsonl")).rejects.toThrow("full");
});

it("a browser without the API keeps it until it is whole, up to a limit that is said", async () => {
  expect(canStream()).toBe(false);
  const sink = await openSink("a.jsonl", "application/jsonl");
  await sink?.write("één\n");
  await sink?.write("two\n");
  await sink?.close();
  const [name, file] = saved.file.mock.calls[0] as [string, Blob];
  expect([name, file.type, await file.text()]).toEqual(["a.jsonl", "application/jsonl", "één\ntwo\n"]);
  const small = memorySink("a.jsonl", "text/plain", 1024 * 1024);
  await small.write("x".repeat(1024 * 1024));
  await expect(small.write("y")).rejects.toThrow("exceeds the 1 MiB");
});
