import { inspect } from "node:util";
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { ApiError, CallTimeoutError, type Client, idempotencyKey, isTransient, ProtocolError, SecretLostError, TransportError, unwrap, UsageError, type WatchStatus } from "../src/index.js";
import { Client as Plain } from "../src/client.js";
import { ONCE } from "../src/once.js";
import { clientFromEnvironment, tokenFile } from "../src/node.js";
import { Api, allocation, error, lines, TOKEN } from "./server.js";

let api: Api;
beforeEach(async () => {
  api = await new Api().start();
});
afterEach(() => api.close());

const BODY = { name: "a", region_code: "lab-1", sku: "s", gpu_count: 1, image: "i", ssh_public_keys: ["k"] };
const launch = (client: Client, headers: Record<string, string> = {}) => unwrap(client.POST("/api/v1/allocations", { body: BODY, headers }));
const skus = (client: Client) => unwrap(client.GET("/api/v1/skus"));
const get = (client: Client, allocation_id: string) => unwrap(client.GET("/api/v1/allocations/{allocation_id}", { params: { path: { allocation_id } } }));
const caught = (call: Promise<unknown>) => call.then(() => expect.fail("it succeeds"), (problem: unknown) => problem);

test("a call sends what it is given and returns the answer", async () => {
  api.plays({ body: allocation("active") });
  expect((await launch(api.client())).status?.state).toBe("active");
  const [seen] = api.seen;
  expect(seen).toMatchObject({ verb: "POST", path: "/api/v1/allocations" });
  expect(seen?.headers["authorization"]).toBe(`Bearer ${TOKEN}`);
  expect(JSON.parse(seen?.body ?? "")).toEqual(BODY);
});

test("names are encoded, and one that could reach another route is refused", async () => {
  api.plays({ body: {} });
  await get(api.client(), "../admin/nodes?x#y ü");
  expect(api.seen[0]?.path).toBe("/api/v1/allocations/..%2Fadmin%2Fnodes%3Fx%23y%20%C3%BC");
  for (const bad of ["", ".", "..", "\ud800"]) await expect(get(api.client(), bad)).rejects.toThrow(UsageError);
  const slots = (node_id: string) => unwrap(api.client().GET("/api/v1/admin/nodes/{node_id}/resource-slots", { params: { path: { node_id } } }));
  for (const bad of ["", ".", ".."]) await expect(slots(bad)).rejects.toThrow(UsageError);
  const watch = (allocation_id: string) => api.client().watch("/api/v1/allocations/{allocation_id}:watch", { path: { allocation_id } }).next();
  for (const bad of ["", ".", "..", "\ud800"]) await expect(watch(bad)).rejects.toThrow(UsageError);
  expect(api.seen).toHaveLength(1);
});

test("a bad key is refused", async () => {
  for (const key of ["", "a b", "x".repeat(129)]) await expect(launch(api.client(), { "X-Idempotency-Key": key })).rejects.toThrow(UsageError);
  expect(api.seen).toHaveLength(0);
});

test("a change is tried again with one key and the same body", async () => {
  api.plays(error(503, "UNAVAILABLE", "OVERLOADED"), { raw: (response) => response.destroy() }, { body: allocation("reserved") });
  await launch(api.client());
  await launch(api.client(), { "X-Idempotency-Key": "mine" });
  const keys = api.seen.map(({ headers }) => headers["x-idempotency-key"]);
  expect(new Set(keys.slice(0, 3)).size).toBe(1);
  expect(keys[3]).toBe("mine");
  expect(new Set(api.seen.map(({ body }) => body)).size).toBe(1);
  const [first = 0, second = 0] = api.slept;
  expect(first).toBeGreaterThanOrEqual(125);
  expect(first).toBeLessThanOrEqual(250);
  expect(second).toBeLessThanOrEqual(500);
});

test("keys are new without crypto.randomUUID too", async () => {
  vi.stubGlobal("crypto", undefined);
  try {
    api.plays({ body: allocation("reserved") });
    for (let i = 0; i < 20; i++) await launch(api.client());
  } finally {
    vi.unstubAllGlobals();
  }
  expect(new Set(api.seen.map(({ headers }) => headers["x-idempotency-key"])).size).toBe(20);
});

test("a key of one's own is new each time", () => {
  expect(new Set(Array.from({ length: 20 }, idempotencyKey)).size).toBe(20);
});

test("a secret whose answer was lost is an error that says what to do", async () => {
  const path = { project_id: "p", service_account_id: "s", organisation_id: "o", api_key_id: "k", webhook_id: "w", node_id: "n", allocation_id: "a" };
  for (const [template, once] of Object.entries(ONCE)) {
    const call = (client: Client) => unwrap((client.POST as unknown as (path: string, given: object) => Promise<{ data?: object }>)(template, { params: { path }, body: {} }));
    api.plays({ body: { id: "x-1", [once.field]: "secret" } });
    expect(await call(api.client())).toMatchObject({ [once.field]: "secret" });
    api.seen.length = 0;
    api.plays({ raw: (response) => response.destroy() }, { body: { id: "x-1", [once.field]: "" } });
    const problem = await caught(call(api.client()));
    expect(problem).toBeInstanceOf(SecretLostError);
    expect(problem).toMatchObject({ answer: { id: "x-1" }, message: expect.stringContaining(`${once.made} x-1`) as string });
    const keys = api.seen.map(({ headers }) => headers["x-idempotency-key"]);
    expect([keys.length, new Set([...keys, (problem as SecretLostError).idempotencyKey]).size]).toEqual([2, 1]);
  }
  // what does not show it is no error without it
  api.plays({ body: { id: "x-1", key: "" } });
  await unwrap(api.client().GET("/api/v1/webhooks/{webhook_id}", { params: { path: { webhook_id: "w" } } }));
});

test("attempts have an end and the error names the key", async () => {
  api.plays(error(503, "UNAVAILABLE"));
  const problem = await caught(launch(api.client({ retries: { attempts: 3 } }), { "X-Idempotency-Key": "mine" }));
  expect(problem).toMatchObject({ httpStatus: 503, idempotencyKey: "mine" });
  expect(api.seen).toHaveLength(3);
});

test("Retry-After is kept, and raised when it is too long", async () => {
  api.plays(error(429, "RESOURCE_EXHAUSTED", "RATE_LIMITED", { "retry-after": "7" }), {});
  await skus(api.client());
  expect(api.slept[0]).toBeGreaterThanOrEqual(7000);
  for (const value of ["3600", "Fri, 31 Dec 2100 23:59:59 GMT"]) {
    api.plays(error(429, "RESOURCE_EXHAUSTED", "RATE_LIMITED", { "retry-after": value }));
    expect(await caught(skus(api.client()))).toMatchObject({ httpStatus: 429, reason: "RATE_LIMITED" });
  }
  expect(api.seen).toHaveLength(4);
});

test.each(["", "soon", "-1", "9".repeat(400), "1e9"])("Retry-After %j says nothing", async (value) => {
  api.plays({ status: 503, headers: { "retry-after": value } }, {});
  await skus(api.client());
  expect(api.slept[0]).toBeLessThanOrEqual(250);
  api.plays({ status: 429, headers: { "retry-after": value } });
  await expect(skus(api.client())).rejects.toThrow(ApiError);
  expect(api.seen).toHaveLength(3);
});

test.each([400, 401, 403, 404, 409, 500, 502, 504])("%i is not tried again", async (status) => {
  api.plays(error(status, "X", "QUOTA"));
  expect(await caught(launch(api.client()))).toMatchObject({ httpStatus: status, reason: "QUOTA", requestId: "r-1", metadata: { quota: "gpus" } });
  expect(api.seen).toHaveLength(1);
});

test("an error says which field is wrong", async () => {
  api.plays(error(400, "INVALID_ARGUMENT", "FIELD_REQUIRED"));
  const problem = await caught(launch(api.client()));
  expect((problem as ApiError).fieldViolations).toEqual([{ field: "sku", description: "is required" }]);
  expect((problem as ApiError).detail).toBe("It is refused.");
  expect((problem as ApiError).message).toBe("It is refused.; sku: is required (FIELD_REQUIRED, request r-1)");
});

test.each([
  "<html><h1>502</h1></html>",
  "",
  "null",
  "[]",
  '{"error": 5}',
  '{"error": {"details": 7, "message": 3}}',
  '{"error": {"details": [1, {"reason": 5, "metadata": {"a": []}, "field_violations": [2, {"field": {}}]}]}}',
  "[".repeat(100_000),
  "x".repeat(3_000_000),
])("an error of any form is an ApiError (%#)", async (body) => {
  api.plays({ status: 502, body: Buffer.from(body), headers: { "content-type": "text/html", "x-request-id": "r-2" } });
  const problem = await caught(skus(api.client()));
  expect(problem).toMatchObject({ httpStatus: 502, reason: "", requestId: "r-2" });
  expect((problem as Error).message).toMatch(/502.*text\/html/);
});

test("an error cannot write to a terminal", async () => {
  api.plays({ status: 400, body: { error: { message: `\u001b[2Jgone\r\n\u202e${"x".repeat(9999)}` } } });
  const { message } = (await caught(skus(api.client()))) as Error;
  expect(message).not.toMatch(/\p{C}/u);
  expect(message.length).toBeLessThan(3000);
});

test.each(["<html>", "", "\xff", "null", "[1]", '"text"', "{", "[".repeat(100_000)])("an answer of another form is named (%#)", async (body) => {
  api.plays({ body: Buffer.from(body, "latin1") });
  await expect(skus(api.client())).rejects.toThrow(ProtocolError);
  expect(api.seen).toHaveLength(1);
});

test("a huge answer is refused", async () => {
  api.plays({ body: Buffer.alloc(100_000, " ") });
  await expect(skus(api.client({ maxAnswerBytes: 1000 }))).rejects.toThrow("larger than 1000 bytes");
});

test("a redirect is not followed", async () => {
  api.plays({ status: 302, headers: { location: "http://127.0.0.1:9/" } });
  await expect(skus(api.client({ retries: { attempts: 1 } }))).rejects.toThrow(TransportError);
  expect(api.seen).toHaveLength(1);
});

test("a slow body and a silent server end with the timeout", async () => {
  const drip = (response: import("node:http").ServerResponse) => {
    const timer = setInterval(() => response.write(" "), 10);
    response.on("close", () => clearInterval(timer));
  };
  for (const raw of [drip, () => undefined]) {
    api.plays({ raw });
    await expect(skus(api.client({ timeoutMs: 150 }))).rejects.toThrow(CallTimeoutError);
  }
});

test("a cancelled call ends with its reason and the client goes on", async () => {
  api.plays({ raw: () => undefined });
  const client = api.client();
  const cancel = new AbortController();
  const call = client.GET("/api/v1/skus", { signal: cancel.signal });
  await api.next();
  cancel.abort(new Error("changed my mind"));
  await expect(call).rejects.toThrow("changed my mind");
  api.plays({ body: { skus: [{ code: "s" }] } });
  expect((await skus(client)).skus?.[0]?.code).toBe("s");
});

test("nobody listens", async () => {
  const client = api.client({ retries: { attempts: 2 } });
  await api.close();
  await expect(skus(client)).rejects.toThrow(TransportError);
  expect(api.slept).toHaveLength(1);
});

test("what may pass later is told from what is refused", async () => {
  const failed = async (status: number) => {
    api.plays(error(status, "X"));
    return isTransient(await caught(skus(api.client({ retries: { attempts: 1 } }))));
  };
  for (const status of [429, 500, 502, 503]) expect(await failed(status)).toBe(true);
  for (const status of [400, 401, 403, 404, 409]) expect(await failed(status)).toBe(false);
  expect(isTransient(new TransportError("gone"))).toBe(true);
});

test("plain HTTP is for this machine, and for where the page is from", () => {
  vi.stubGlobal("location", { origin: "http://console.example.com:7080" });
  try {
    expect(new Plain({ baseUrl: "http://console.example.com:7080" }).baseUrl).toBe("http://console.example.com:7080");
    for (const other of ["http://console.example.com", "http://api.example.com"]) expect(() => new Plain({ baseUrl: other })).toThrow(UsageError);
  } finally {
    vi.unstubAllGlobals();
  }
});

test("the address is checked", () => {
  for (const bad of ["", "api.example.com", "ftp://x", "https://", "https://u:p@x", "https://x/?a=b", "http://api.example.com"]) {
    expect(() => new Plain({ baseUrl: bad })).toThrow(UsageError);
  }
  expect(new Plain({ baseUrl: "https://api.example.com/below/" }).baseUrl).toBe("https://api.example.com/below");
});

test("tokens come from a function, the environment and a file", async () => {
  api.plays({ body: {} });
  const { mkdtemp, writeFile, rm } = await import("node:fs/promises");
  const folder = await mkdtemp("/tmp/gpuaas-sdk-");
  try {
    await writeFile(`${folder}/token`, "from-file\n");
    const environment = { GPUAAS_API: api.url, GPUAAS_TOKEN_FILE: `${folder}/token` };
    const clients = [
      api.client({ token: () => Promise.resolve("from-function") }),
      clientFromEnvironment({}, environment),
      clientFromEnvironment({}, { ...environment, GPUAAS_TOKEN: "from-environment" }),
      clientFromEnvironment({}, { GPUAAS_API: api.url }),
      api.client({ token: () => undefined }),
    ];
    for (const client of clients) await skus(client);
    expect(api.seen.map(({ headers }) => headers.authorization)).toEqual(["Bearer from-function", "Bearer from-file", "Bearer from-environment", undefined, undefined]);
    await rm(`${folder}/token`);
    await expect(skus(clients[1]!)).rejects.toThrow("cannot be read");
  } finally {
    await rm(folder, { recursive: true });
  }
  expect(() => clientFromEnvironment({}, {})).toThrow(UsageError);
});

test("a token file that is empty or missing while it is renewed is read once more", async () => {
  const { mkdtemp, writeFile, rm } = await import("node:fs/promises");
  const folder = await mkdtemp("/tmp/gpuaas-sdk-");
  const path = `${folder}/token`;
  let pauses = 0;
  const renew = async () => {
    pauses += 1;
    await writeFile(path, `renewed-${pauses}`);
  };
  try {
    await writeFile(path, "");
    expect(await tokenFile(path, renew)()).toBe("renewed-1");
    expect(await tokenFile(path, renew)()).toBe("renewed-1");
    await rm(path);
    expect(await tokenFile(path, renew)()).toBe("renewed-2");
    expect(pauses).toBe(2);
    await rm(path);
    await expect(tokenFile(path, () => Promise.resolve())()).rejects.toThrow(UsageError);
    // a watch goes on over it: without the second read the setting would be one that cannot be used, which ends it
    await writeFile(path, "\n");
    api.plays(lines({ end: {}, resume_token: "" }));
    const ended = await new Promise((resolve) => {
      const status = (now: WatchStatus) => ["refused", "ended"].includes(now) && resolve(now);
      api.client({ token: tokenFile(path, renew) }).follow("/api/v1/allocations/{allocation_id}:watch", { path: { allocation_id: "a-1" } }, { anew: () => undefined, messages: () => undefined, status });
    });
    expect([ended, api.seen.at(-1)?.headers.authorization]).toEqual(["ended", "Bearer renewed-3"]);
  } finally {
    await rm(folder, { recursive: true });
  }
});

test("a token is never shown", async () => {
  for (const bad of [`${TOKEN}\r\nX-Evil: 1`, `${TOKEN} ü`, "x".repeat(100_000), ""]) {
    const problem = await caught(skus(api.client({ token: bad })));
    expect(problem).toBeInstanceOf(UsageError);
    expect(inspect(problem, { depth: 9 })).not.toContain("secret");
  }
  api.plays({ raw: (response) => response.destroy() });
  const lost = await caught(skus(api.client({ retries: { attempts: 1 } })));
  expect(lost).toBeInstanceOf(TransportError);
  expect(inspect([lost, api.client()], { depth: 9, showHidden: true })).not.toContain("secret-token");
});
