/** Decisions: when a call is tried again, how long it may take, and what may be sent. */
import { ApiError, CallTimeoutError, TransportError, UsageError } from "./errors.js";

export interface Retries {
  /** Most attempts in all; 1 tries nothing again. Default 5. */
  attempts: number;
  /** Milliseconds before the second attempt; doubled for each later one, with jitter. Default 250. */
  firstDelayMs: number;
  /** Longest wait between two attempts. Default 8,000. */
  longestDelayMs: number;
  /** Longest `Retry-After` that is waited for; one above it is raised at once. Default 60,000. */
  longestRetryAfterMs: number;
}

export const RETRIES: Retries = { attempts: 5, firstDelayMs: 250, longestDelayMs: 8000, longestRetryAfterMs: 60_000 };

/** Whether the same call may succeed a moment later: after transport errors, 503, and 429 with `Retry-After`. */
export function mayPass(error: unknown): boolean {
  if (error instanceof ApiError) return error.httpStatus === 503 || (error.httpStatus === 429 && error.retryAfter !== undefined);
  return error instanceof TransportError;
}

/** Milliseconds to wait after the attempt (from 0) that failed; `undefined`: do not. `chance` is from 0 to 1. */
export function delayOf(retries: Retries, error: unknown, attempt: number, chance: number): number | undefined {
  if (attempt + 1 >= retries.attempts || !mayPass(error)) return undefined;
  const wait = backoff(retries, attempt, chance);
  const asked = error instanceof ApiError ? error.retryAfter : undefined;
  if (asked === undefined) return wait;
  return asked * 1000 > retries.longestRetryAfterMs ? undefined : asked * 1000 + retries.firstDelayMs * chance;
}

/** Milliseconds to wait after the attempt (from 0): doubled for each, and not the same for everybody. `chance` is from 0 to 1. */
export function backoff({ firstDelayMs, longestDelayMs }: Pick<Retries, "firstDelayMs" | "longestDelayMs">, attempt: number, chance: number): number {
  return Math.min(longestDelayMs, firstDelayMs * 2 ** attempt) * (0.5 + chance / 2);
}

/** Seconds that the server asks to wait: a number or a date; `undefined` for anything else. */
export function retryAfter(value: string | null, now: number): number | undefined {
  const text = value?.trim() ?? "";
  if (/^\d{1,9}$/.test(text)) return Number(text);
  const date = /^[A-Z][a-z]{2}, /.test(text) ? Date.parse(text) : Number.NaN;
  return Number.isNaN(date) ? undefined : Math.max(0, (date - now) / 1000);
}

/** The end of a call, and of the caller's own limit: `signal` fires at whichever comes first. */
export class Deadline {
  readonly #controller = new AbortController();
  #end = 0;
  #timer: ReturnType<typeof setTimeout> | undefined;
  readonly #caller: AbortSignal | undefined;
  readonly #abort = () => {
    clearTimeout(this.#timer);
    this.#controller.abort(this.#caller?.reason);
  };

  constructor(ms: number, caller?: AbortSignal | null) {
    this.#caller = caller ?? undefined;
    this.extend(ms);
    if (this.#caller?.aborted) this.#abort();
    else this.#caller?.addEventListener("abort", this.#abort);
  }

  /** The end is so many milliseconds from now. */
  extend(ms: number): void {
    clearTimeout(this.#timer);
    this.#end = performance.now() + ms;
    // longer ones than a timer can hold have none
    if (ms < 2 ** 31) this.#timer = setTimeout(() => this.#controller.abort(new CallTimeoutError(`no answer came within ${ms} ms`)), ms);
  }

  get signal(): AbortSignal {
    return this.#controller.signal;
  }

  left(): number {
    return this.#end - performance.now();
  }

  /** Lets go of timer and listener. */
  done(): void {
    clearTimeout(this.#timer);
    this.#caller?.removeEventListener("abort", this.#abort);
  }

  /** The exception for what was thrown while this was the deadline. */
  translate(error: unknown, key?: string): unknown {
    if (this.#caller?.aborted) return this.#caller.reason;
    if (this.#controller.signal.aborted) return new CallTimeoutError("no answer came in time", key, { cause: error });
    if (error instanceof TypeError || (error instanceof Error && error.name === "AbortError")) {
      return new TransportError(`no answer came: ${error.message}`, key, { cause: error });
    }
    return error;
  }
}

export type Sleep = (ms: number, signal: AbortSignal) => Promise<void>;

/** Waits, unless the signal fires before. */
export const sleep: Sleep = (ms, signal) =>
  new Promise((resolve, reject) => {
    const stop = () => {
      clearTimeout(timer);
      reject(signal.reason);
    };
    const timer = setTimeout(() => {
      signal.removeEventListener("abort", stop);
      resolve();
    }, ms);
    if (signal.aborted) stop();
    else signal.addEventListener("abort", stop, { once: true });
  });

/** Where the page is from that this runs in; `undefined` outside of pages. */
const ownOrigin = () => (globalThis as { location?: { origin?: string } }).location?.origin;

/** The address of the API without a slash at its end. Plain HTTP is for this machine, and for where the page is from: a token is sent. */
export function baseUrlOf(given: string): string {
  let url: URL;
  try {
    url = new URL(given);
  } catch {
    throw new UsageError("the API address is not a URL");
  }
  if (url.protocol !== "https:" && url.protocol !== "http:") throw new UsageError("the API address must start with https://");
  if (url.username || url.password || url.search || url.hash) throw new UsageError("the API address must have no user, query or fragment");
  if (url.protocol === "http:" && !["localhost", "127.0.0.1", "[::1]"].includes(url.hostname) && url.origin !== ownOrigin()) {
    throw new UsageError("the API address must start with https:// because a token is sent; http:// is for this machine only");
  }
  return url.href.replace(/\/+$/, "");
}

/** The token as a header takes it. A message never shows it. */
export function checkedToken(token: string): string {
  const stripped = token.trim();
  if (stripped.length > 65_536 || !/^[!-~]+$/.test(stripped)) {
    throw new UsageError("the token is empty, too long, or has characters that a token does not have");
  }
  return stripped;
}

/** Node.js 18 and pages that came by plain HTTP have no `crypto.randomUUID`; a key must be new, not secret. */
function unique(): string {
  const given = (globalThis as { crypto?: Partial<Crypto> }).crypto?.randomUUID?.();
  return given ?? Array.from({ length: 4 }, () => Math.floor(Math.random() * 2 ** 32).toString(16).padStart(8, "0")).join("");
}

/** A new idempotency key, to repeat a change with: pass it as header `X-Idempotency-Key`. */
export function idempotencyKey(): string {
  return `ts-${unique()}`;
}

/** A new idempotency key, or the given one when it is one. */
export function keyOf(given: string | null): string {
  if (given === null) return idempotencyKey();
  if (!/^[!-~]{1,128}$/.test(given)) throw new UsageError("an idempotency key is 1 to 128 visible ASCII characters");
  return given;
}

/** The path with its parameters, each one segment: none can reach another route. */
export function filledPath(path: string, names: Record<string, unknown>): string {
  return path.replace(/\{(\w+)\}/g, (_, name: string) => {
    const value = names[name];
    if (typeof value !== "string" || ["", ".", ".."].includes(value)) throw new UsageError(`${name} is not the name or id of anything`);
    try {
      return encodeURIComponent(value);
    } catch {
      throw new UsageError(`${name} is not text`);
    }
  });
}
