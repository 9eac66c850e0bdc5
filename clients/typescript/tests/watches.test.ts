import { afterEach, beforeEach, expect, test } from "vitest";
import { AllocationFailedError, ApiError, type Client, pages, ProtocolError, TransportError, WaitTimeoutError, wholePages, type WatchStatus } from "../src/index.js";
import { linesOf } from "../src/lines.js";
import { allocation, Api, error, lines } from "./server.js";

let api: Api;
beforeEach(async () => {
  api = await new Api().start();
});
afterEach(() => api.close());

const change = (state: string, resume_token = "", status: object = {}) => ({ change: { kind: "modified", allocation: allocation(state, status) }, resume_token });
const page = (ids: string[], next_page_token = "") => ({ body: { allocations: ids.map((id) => ({ id })), next_page_token } });
const END = { end: {}, resume_token: "last" };

async function all<T>(items: AsyncIterable<T>): Promise<T[]> {
  const found: T[] = [];
  for await (const item of items) found.push(item);
  return found;
}

const watch = (client: Client) => all(client.watch("/api/v1/allocations/{allocation_id}:watch", { path: { allocation_id: "a-1" } }));
const list = (client: Client) =>
  all(pages((page_token) => client.GET("/api/v1/allocations", { params: { query: { page_size: 2, page_token } } }), ({ allocations }) => allocations));

test("all pages are read, and one that fails is tried again alone", async () => {
  api.plays(page(["1", "2"], "t/&"), error(503, "UNAVAILABLE"), page([], "u"), page(["3"]));
  expect((await list(api.client())).map(({ id }) => id)).toEqual(["1", "2", "3"]);
  expect(api.seen.map(({ path }) => path.split("?")[1])).toEqual(["page_size=2", "page_size=2&page_token=t%2F%26", "page_size=2&page_token=t%2F%26", "page_size=2&page_token=u"]);
});

test("pages without end are noticed, and so are pages of another form", async () => {
  api.plays(page(["1"], "a"), page(["2"], "b"), page(["3"], "a"));
  await expect(list(api.client())).rejects.toThrow("no end");
  expect(api.seen).toHaveLength(3);
  api.plays({ body: { allocations: {} } });
  await expect(list(api.client())).rejects.toThrow(ProtocolError);
  api.plays({ body: { allocations: [{ id: "1" }] } });
  await expect(list(api.client())).rejects.toThrow("read_mask has to name it");
});

test("whole pages have what an answer has beside its items", async () => {
  api.plays({ body: { intervals: [{}], totals: [], next_page_token: "t" } }, { body: { intervals: [], totals: [{ sku: "s" }], next_page_token: "" } });
  const usage = await all(wholePages((page_token) => api.client().GET("/api/v1/usage", { params: { query: { page_token } } })));
  expect(usage.map(({ totals }) => totals?.length)).toEqual([0, 1]);
});

test("a watch that is followed goes on with a renewed token, and tells when it is refused for good", async () => {
  const tokens = ["old", "new", "new"];
  const token = () => tokens.shift() ?? "new";
  api.plays(error(401, "UNAUTHENTICATED", "CREDENTIAL_EXPIRED"), lines(change("reserved", "t1")), error(404, "NOT_FOUND", "ALLOCATION_NOT_FOUND"));
  const statuses: WatchStatus[] = [];
  const states: unknown[] = [];
  const refused = await new Promise((resolve) => {
    api.client({ token }).follow(
      "/api/v1/allocations/{allocation_id}:watch",
      { path: { allocation_id: "a/1" } },
      {
        anew: () => undefined,
        messages: (batch) => states.push(...batch.map((message) => message.change?.allocation?.status?.state)),
        status: (status, problem) => {
          statuses.push(status);
          if (status === "refused") resolve(problem);
        },
      },
    );
  });
  expect(refused).toMatchObject({ httpStatus: 404, reason: "ALLOCATION_NOT_FOUND" });
  expect(statuses).toEqual(["connecting", "reconnecting", "live", "reconnecting", "refused"]);
  expect(states).toEqual(["reserved"]);
  expect(api.seen.map(({ path, headers }) => [path, headers.authorization])).toEqual([
    ["/api/v1/allocations/a%2F1:watch", "Bearer old"],
    ["/api/v1/allocations/a%2F1:watch", "Bearer new"],
    ["/api/v1/allocations/a%2F1:watch?resume_token=t1", "Bearer new"],
  ]);
});

test("a watch goes on where its stream was lost", async () => {
  const broken = { error: { code: 503, status: "UNAVAILABLE", message: "restarts", details: [] } };
  api.plays(lines(change("reserved", "t1"), { heartbeat: {} }), lines(change("active", "t2"), broken), lines(END));
  const got = await watch(api.client());
  expect(got.flatMap((message) => message.change?.allocation?.status?.state ?? [])).toEqual(["reserved", "active"]);
  expect(api.seen.map(({ path }) => path.split("?")[1])).toEqual([undefined, "resume_token=t1", "resume_token=t2"]);
});

test("a watch with an expired token is opened again with the renewed one", async () => {
  const expired = { error: { code: 401, status: "UNAUTHENTICATED", message: "old", details: [{ reason: "CREDENTIAL_EXPIRED" }] } };
  api.plays(lines(change("reserved", "t1"), expired), error(401, "UNAUTHENTICATED", "CREDENTIAL_EXPIRED"));
  await expect(watch(api.client())).rejects.toThrow(ApiError);
  expect(api.seen).toHaveLength(2);
});

test("a watch whose access has changed is opened again", async () => {
  const changed = { error: { code: 403, status: "PERMISSION_DENIED", message: "changed", details: [] } };
  api.plays(lines(change("reserved", "t1"), changed), lines(change("active", "t2"), END));
  expect(await watch(api.client())).toHaveLength(3);
  // who may not any more hears that when it is opened
  api.plays(lines(change("reserved", "t1"), changed), error(403, "PERMISSION_DENIED", "PERMISSION_DENIED"));
  await expect(watch(api.client())).rejects.toThrow(ApiError);
  expect(api.seen).toHaveLength(4);
});

test("a watch that is refused, or never comes, ends", async () => {
  api.plays(error(404, "NOT_FOUND", "ALLOCATION_NOT_FOUND"));
  await expect(watch(api.client())).rejects.toThrow(ApiError);
  expect(api.seen).toHaveLength(1);
  api.plays(lines());
  await expect(watch(api.client({ retries: { attempts: 3 } }))).rejects.toThrow(TransportError);
  expect(api.seen).toHaveLength(4);
});

test.each(["<html>\n", "[]\n", '{"error": 1}\n', "\xff\n"])("a line of another form is named (%#)", async (line) => {
  api.plays({ body: Buffer.from(line, "latin1") });
  await expect(watch(api.client())).rejects.toThrow(/not a JSON object|not one of the API/);
  expect(api.seen).toHaveLength(1);
});

test("a reader that stops lets go of the stream", async () => {
  const closed = new Promise<void>((resolve) =>
    api.plays({
      raw: (response) => {
        response.on("close", resolve);
        response.write(`${JSON.stringify(change("reserved"))}\n`);
      },
    }),
  );
  for await (const _ of api.client().watch("/api/v1/allocations:watch", {})) break;
  await closed;
});

test("lines come whole however they are cut, and one without end is refused", async () => {
  const text = Buffer.from(`${JSON.stringify({ a: "ü\u2028\u0085" })}\n\r\n\n{}\n`);
  for (let size = 1; size <= text.length; size++) {
    const cut = async function* () {
      for (let at = 0; at < text.length; at += size) yield text.subarray(at, at + size);
    };
    expect((await all(linesOf(cut()))).flat().map((line) => JSON.parse(Buffer.from(line).toString()) as unknown)).toEqual([{ a: "ü\u2028\u0085" }, {}]);
  }
  const endless = async function* () {
    yield new Uint8Array(11);
  };
  await expect(all(linesOf(endless(), 10))).rejects.toThrow("longer than 10");
});

test("a waiter returns once the state is reached", async () => {
  api.plays({ body: allocation("reserved") }, lines(change("provisioning", "t"), change("active", "u")));
  expect((await api.client().waitUntilActive("a-1")).status?.state).toBe("active");
  api.plays({ body: allocation("released") });
  expect((await api.client().waitReleased("a-1")).status?.state).toBe("released");
  expect(api.seen).toHaveLength(3);
});

test("a waiter tells why the allocation failed", async () => {
  const failure = { reason: "HOST_UNREACHABLE", message: "The host does not answer." };
  api.plays({ body: allocation("reserved") }, lines(change("failed", "t", { failure })));
  const call = api.client().waitUntilActive("a-1");
  await expect(call).rejects.toThrow(AllocationFailedError);
  await expect(call).rejects.toThrow("allocation a-1: The host does not answer. (HOST_UNREACHABLE)");
  api.plays({ body: allocation("releasing") });
  await expect(api.client().waitUntilActive("a-1")).rejects.toThrow("its state is releasing");
});

test("a waiter gets along without watches and with changes that are no longer kept", async () => {
  api.plays({ body: allocation("reserved") }, { body: Buffer.from("<html>") }, { body: allocation("active") });
  expect((await api.client().waitUntilActive("a-1")).status?.state).toBe("active");
  api.plays({ body: allocation("reserved") }, lines(change("reserved", "t")), error(400, "OUT_OF_RANGE", "RESUME_TOKEN_EXPIRED"), { body: allocation("active") });
  expect((await api.client().waitUntilActive("a-1")).status?.state).toBe("active");
});

test("a waiter ends for what is not there", async () => {
  api.plays(error(404, "NOT_FOUND", "ALLOCATION_NOT_FOUND"));
  await expect(api.client().waitUntilActive("a-1")).rejects.toThrow(ApiError);
  api.plays({ body: Buffer.from("rubbish") });
  await expect(api.client().waitUntilActive("a-1")).rejects.toThrow(ProtocolError);
});

test("a waiter has a deadline, knows the last state, and can be cancelled", async () => {
  api.plays({ body: allocation("provisioning") }, { raw: () => undefined });
  const problem: unknown = await api.client().waitUntilActive("a-1", { timeoutMs: 2000 }).catch((thrown: unknown) => thrown);
  expect(problem).toBeInstanceOf(WaitTimeoutError);
  expect((problem as WaitTimeoutError).allocation?.status?.state).toBe("provisioning");
  const cancel = new AbortController();
  const call = api.client().waitUntilActive("a-1", { signal: cancel.signal });
  await api.next();
  cancel.abort(new Error("enough"));
  await expect(call).rejects.toThrow("enough");
});
