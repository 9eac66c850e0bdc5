/** The client: typed calls, pages, watches, waiters and terminals. */
import createFetchClient, { type Client as FetchClient } from "openapi-fetch";
import { type Allocation, AllocationFailedError, ApiError, isTransient, ProtocolError, TransportError, WaitTimeoutError } from "./errors.js";
import { type CallOptions, resilientFetch, tokenOf } from "./fetch.js";
import { baseUrlOf, Deadline, delayOf, filledPath, RETRIES, sleep } from "./policy.js";
import type { components, paths } from "./schema.js";
import { type AnyMessage, openStream } from "./stream.js";
import type { Terminal, TerminalOptions } from "./terminal.js";
import { Watch, type WatchHandlers } from "./watch.js";

export interface ClientOptions extends CallOptions {
  /** Address of the API. */
  baseUrl: string;
}

export interface WaitOptions {
  /** Milliseconds. Default 15 minutes for waiters; a watch goes on until it ends. */
  timeoutMs?: number;
  signal?: AbortSignal;
}

type Schemas = components["schemas"];
interface Streamed {
  get: { responses: { 200: { content: { "application/x-ndjson": unknown } } } };
}
/** Paths that can be watched. */
export type WatchPath = { [P in keyof paths]: paths[P] extends Streamed ? P : never }[keyof paths];
type Get<P extends WatchPath> = paths[P] extends { get: infer G } ? G : never;
/** What a watch of the path sends. */
export type WatchMessage<P extends WatchPath> =
  Get<P> extends { responses: { 200: { content: { "application/x-ndjson": infer M } } } } ? Exclude<M, Schemas["Error"]> : never;
/** Parameters of a watch of the path. */
export type WatchParams<P extends WatchPath> = Get<P> extends { parameters: infer Q } ? Omit<Q, "header" | "cookie"> : never;

const TOO_LATE: Record<string, readonly string[]> = { active: ["releasing", "released", "failed"], released: ["failed"] };

/** The data of an answer: `const skus = await unwrap(client.GET("/api/v1/skus"))`. */
export async function unwrap<T>(call: Promise<{ data?: T }>): Promise<NonNullable<T>> {
  const { data } = await call;
  if (data === undefined || data === null) throw new ProtocolError("the answer has no data");
  return data;
}

/**
 * The items of all pages:
 * `pages((page_token) => client.GET("/api/v1/skus", { params: { query: { page_token } } }), (page) => page.skus)`.
 */
export async function* pages<P, T>(
  load: (pageToken: string | undefined) => Promise<{ data?: P }>,
  itemsOf: (page: NonNullable<P>) => readonly T[] | undefined,
): AsyncGenerator<T> {
  for await (const page of wholePages(load)) {
    const items: unknown = itemsOf(page) ?? [];
    if (!Array.isArray(items)) throw new ProtocolError("the answer is not of the API's form: the items of a page are not a list");
    yield* items as T[];
  }
}

/** The pages themselves, for what an answer has beside its items. */
export async function* wholePages<P>(load: (pageToken: string | undefined) => Promise<{ data?: P }>): AsyncGenerator<NonNullable<P>> {
  const seen = new Set<string>();
  let token: string | undefined;
  do {
    const page = await unwrap(load(token));
    yield page;
    const { next_page_token } = page as { next_page_token?: unknown };
    // a mask that leaves it out would end the list after its first page
    if (typeof next_page_token !== "string") throw new ProtocolError("a page has no next_page_token; a read_mask has to name it");
    token = next_page_token === "" ? undefined : next_page_token;
    if (token !== undefined && seen.has(token)) throw new ProtocolError("the pages of the list have no end: a page token came twice");
    if (token !== undefined) seen.add(token);
  } while (token !== undefined);
}

export class Client {
  readonly baseUrl: string;
  readonly #options: CallOptions;
  readonly #api: FetchClient<paths>;
  readonly GET: FetchClient<paths>["GET"];
  readonly POST: FetchClient<paths>["POST"];
  readonly PUT: FetchClient<paths>["PUT"];
  readonly PATCH: FetchClient<paths>["PATCH"];
  readonly DELETE: FetchClient<paths>["DELETE"];

  constructor({ baseUrl, ...options }: ClientOptions) {
    this.baseUrl = baseUrlOf(baseUrl);
    this.#options = options;
    this.#api = createFetchClient<paths>({ baseUrl: this.baseUrl, fetch: resilientFetch(options), pathSerializer: filledPath });
    ({ GET: this.GET, POST: this.POST, PUT: this.PUT, PATCH: this.PATCH, DELETE: this.DELETE } = this.#api);
  }

  /** The messages of a watch, over as many streams as it takes: a lost one is resumed. */
  async *watch<P extends WatchPath>(path: P, params: WatchParams<P>, options: WaitOptions = {}): AsyncGenerator<WatchMessage<P>> {
    const retries = { ...RETRIES, ...this.#options.retries };
    const { query = {}, path: names = {} } = params as { query?: Record<string, unknown>; path?: Record<string, string> };
    let token = typeof query["resume_token"] === "string" ? query["resume_token"] : "";
    const deadline = new Deadline(options.timeoutMs ?? Number.POSITIVE_INFINITY, options.signal);
    let failures = 0;
    try {
      for (;;) {
        let messages = 0;
        let lost: unknown = new TransportError("the stream ended");
        try {
          for await (const batch of await openStream<AnyMessage>(this.#options, this.#address(path, names, { ...query, resume_token: token }), deadline.signal)) {
            for (const message of batch) {
              token = typeof message.resume_token === "string" ? message.resume_token || token : token;
              messages++;
              failures = 0;
              yield message as WatchMessage<P>;
              if (message.end) return;
            }
          }
        } catch (thrown) {
          lost = deadline.translate(thrown);
        }
        // a token that expired while the stream was open may have been renewed since, and an access that changed may still allow it
        const renewed = messages > 0 && lost instanceof ApiError && [401, 403].includes(lost.httpStatus);
        const wait = delayOf(retries, renewed ? new TransportError("again") : lost, failures++, Math.random());
        if (deadline.signal.aborted || wait === undefined || wait >= deadline.left()) throw lost;
        await this.#pause(wait, deadline);
      }
    } finally {
      deadline.done();
    }
  }

  /**
   * A watch that goes on until it is closed, whatever happens to its streams, for what somebody looks at. It begins anew when it was
   * away for too long, which `handlers.anew` tells. With the token of an earlier one it goes on after that.
   */
  follow<P extends WatchPath>(path: P, params: WatchParams<P>, handlers: WatchHandlers<WatchMessage<P>>, token = ""): Watch<WatchMessage<P> & AnyMessage> {
    const { query = {}, path: names = {} } = params as { query?: Record<string, unknown>; path?: Record<string, string> };
    let used: string | undefined;
    const options = { ...this.#options, token: async () => (used = await tokenOf(this.#options)) };
    const watch = new Watch<WatchMessage<P> & AnyMessage>(
      {
        open: (resume_token, signal) => openStream(options, this.#address(path, names, { ...query, resume_token }), signal),
        isRenewed: async () => used !== (await tokenOf(this.#options)),
        random: Math.random,
      },
      handlers,
      token,
    );
    watch.start();
    return watch;
  }

  #address(path: string, names: Record<string, string>, query: Record<string, unknown>): string {
    const pairs = Object.entries(query).filter(([, value]) => value !== undefined && value !== null && value !== "");
    const text = new URLSearchParams(pairs.map(([name, value]) => [name, String(value)])).toString();
    return `${this.baseUrl}${filledPath(path, names)}${text && `?${text}`}`;
  }

  async #pause(ms: number, deadline: Deadline): Promise<void> {
    try {
      await (this.#options.sleep ?? sleep)(ms, deadline.signal);
    } catch (thrown) {
      throw deadline.translate(thrown);
    }
  }

  /**
   * Waits until the allocation is active. Throws `AllocationFailedError` with the reason when it failed or was released,
   * `WaitTimeoutError` past the timeout.
   */
  waitUntilActive(allocationId: string, options: WaitOptions = {}): Promise<Allocation> {
    return this.#wait(allocationId, "active", options);
  }

  /** Waits until the allocation is released and its disk proven empty; throws as `waitUntilActive` does. */
  waitReleased(allocationId: string, options: WaitOptions = {}): Promise<Allocation> {
    return this.#wait(allocationId, "released", options);
  }

  async #wait(id: string, state: "active" | "released", { timeoutMs = 900_000, signal }: WaitOptions): Promise<Allocation> {
    const deadline = new Deadline(timeoutMs, signal);
    let last: Allocation | undefined;
    const reached = (now: Allocation) => {
      last = now;
      if (TOO_LATE[state]?.includes(now.status?.state ?? "")) throw new AllocationFailedError(now);
      return now.status?.state === state;
    };
    const path = { allocation_id: id };
    try {
      for (;;) {
        try {
          // a watch that cannot be had is replaced by looking again and again
          const now = await unwrap(this.GET("/api/v1/allocations/{allocation_id}", { params: { path }, signal: deadline.signal }));
          if (reached(now)) return now;
          for await (const { change } of this.watch("/api/v1/allocations/{allocation_id}:watch", { path }, { signal: deadline.signal })) {
            if (change?.allocation && reached(change.allocation)) return change.allocation;
          }
        } catch (thrown) {
          if (signal?.aborted) throw signal.reason;
          if (deadline.signal.aborted) throw new WaitTimeoutError(id, last, { cause: thrown });
          if (!last || !passes(thrown)) throw thrown;
        }
        await this.#pause(Math.max(0, Math.min(1000, deadline.left())), deadline).catch(() => undefined);
      }
    } finally {
      deadline.done();
    }
  }

  /** A shell in the allocation. Where there is no `WebSocket` (Node.js before 22), pass that of the package `ws`. */
  async openTerminal(allocationId: string, options: TerminalOptions = {}): Promise<Terminal> {
    // a page that opens no terminal does not load it
    const { Terminal, ticketOf } = await import("./terminal.js");
    const { ticket, websocket_path } = await ticketOf(this, allocationId);
    return Terminal.open(this.baseUrl, websocket_path, allocationId, ticket, options);
  }
}

/** Whether looking again may help. */
function passes(error: unknown): boolean {
  return isTransient(error) || error instanceof ProtocolError || (error instanceof ApiError && error.reason === "RESUME_TOKEN_EXPIRED");
}
