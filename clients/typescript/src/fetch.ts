/** A `fetch` of one call with all its attempts: deadline, retries with one idempotency key, and a limit for the answer. */
import { ApiError, ProtocolError } from "./errors.js";
import { checkOnce } from "./once.js";
import { checkedToken, Deadline, delayOf, keyOf, type Retries, RETRIES, retryAfter, sleep, type Sleep } from "./policy.js";

export type TokenSource = string | (() => string | undefined | Promise<string | undefined>);

export interface CallOptions {
  /** The token, or a function that returns the current one. */
  token?: TokenSource | undefined;
  /** Milliseconds for a call with all its attempts. Default 60,000. */
  timeoutMs?: number | undefined;
  retries?: Partial<Retries> | undefined;
  /** A larger answer is refused. Default 64 MiB. */
  maxAnswerBytes?: number | undefined;
  /** In place of the platform's own. */
  fetch?: ((request: Request) => Promise<Response>) | undefined;
  /** In place of a timer. */
  sleep?: Sleep | undefined;
}

export const MOST_ERROR_BYTES = 1024 * 1024;

/** `fetch` with token, retries, deadline and limit. A refusal is an `ApiError`; a success has an object as JSON. */
export function resilientFetch(options: CallOptions): (request: Request) => Promise<Response> {
  const retries = { ...RETRIES, ...options.retries };
  const pause = options.sleep ?? sleep;
  return async (request) => {
    const changes = request.method !== "GET" && request.method !== "HEAD";
    const key = changes ? keyOf(request.headers.get("X-Idempotency-Key")) : undefined;
    const body = changes ? await request.arrayBuffer() : undefined;
    const deadline = new Deadline(options.timeoutMs ?? 60_000, request.signal);
    try {
      for (let attempt = 0; ; attempt++) {
        try {
          return await once(options, request, body, key, deadline);
        } catch (thrown) {
          const error = deadline.translate(thrown, key);
          const wait = delayOf(retries, error, attempt, Math.random());
          if (wait === undefined || wait >= deadline.left() || deadline.signal.aborted) throw error;
          await pause(wait, deadline.signal);
        }
      }
    } catch (thrown) {
      throw deadline.translate(thrown, key);
    } finally {
      deadline.done();
    }
  };
}

async function once(options: CallOptions, request: Request, body: ArrayBuffer | undefined, key: string | undefined, deadline: Deadline): Promise<Response> {
  const response = await send(options, request, body, key, deadline.signal);
  const limit = response.ok ? (options.maxAnswerBytes ?? 64 * 1024 * 1024) : MOST_ERROR_BYTES;
  const bytes = await readAll(response, limit, deadline.signal);
  const value = bytes && parse(bytes);
  if (!response.ok) throw refusal(response, value, key);
  if (!bytes) throw new ProtocolError(`the answer is larger than ${limit} bytes`);
  if (typeof value !== "object" || value === null || Array.isArray(value)) throw new ProtocolError("the answer is not a JSON object");
  checkOnce(request, value, key);
  const whole = new Response(bytes, { status: response.status, headers: { "content-type": "application/json", "content-length": String(bytes.length) } });
  // parsed once is enough
  whole.json = () => Promise.resolve(value);
  return whole;
}

/** The current token. */
export async function tokenOf({ token }: CallOptions): Promise<string | undefined> {
  return typeof token === "function" ? await token() : token;
}

/** One attempt, as far as the head of the answer. */
export async function send(options: CallOptions, request: Request, body: ArrayBuffer | undefined, key: string | undefined, signal: AbortSignal): Promise<Response> {
  const headers = new Headers(request.headers);
  const token = await tokenOf(options);
  if (token !== undefined) headers.set("Authorization", `Bearer ${checkedToken(token)}`);
  if (key !== undefined) headers.set("X-Idempotency-Key", key);
  // a redirect could lead the token elsewhere
  const attempt = new Request(request.url, { method: request.method, headers, body: body?.byteLength ? body : null, signal, redirect: "error", credentials: "omit", cache: request.cache });
  return (options.fetch ?? fetch)(attempt);
}

export function refusal(response: Response, body: unknown, key?: string): ApiError {
  return new ApiError(response.status, body, response.headers, key, retryAfter(response.headers.get("retry-after"), Date.now()));
}

/** The body, or nothing when it is larger than allowed. */
export async function readAll(response: Response, most: number, signal: AbortSignal): Promise<Uint8Array<ArrayBuffer> | undefined> {
  const chunks: Uint8Array[] = [];
  let size = 0;
  for await (const chunk of chunksOf(response, signal)) {
    size += chunk.length;
    if (size > most) return undefined;
    chunks.push(chunk);
  }
  const whole = new Uint8Array(size);
  let at = 0;
  for (const chunk of chunks) {
    whole.set(chunk, at);
    at += chunk.length;
  }
  return whole;
}

/** The body piece by piece; the connection is let go when the reader stops. */
export async function* chunksOf(response: Response, signal: AbortSignal): AsyncGenerator<Uint8Array> {
  const reader = response.body?.getReader();
  if (!reader) return;
  try {
    for (;;) {
      signal.throwIfAborted();
      const { done, value } = await reader.read();
      if (done) return;
      yield value;
    }
  } finally {
    // it fails when the connection is broken, which the reader knows already
    await reader.cancel().catch(() => undefined);
  }
}

/** The JSON that the bytes are; `undefined` when they are none. */
export function parse(bytes: Uint8Array): unknown {
  try {
    return JSON.parse(new TextDecoder("utf-8", { fatal: true }).decode(bytes));
  } catch {
    return undefined;
  }
}
