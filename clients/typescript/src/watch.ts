/**
 * A watch that goes on until it is closed, over as many streams as it takes: it resumes after the last message, begins anew when
 * that is too long ago, and waits longer after each failure. It knows nothing of what is watched.
 */
import { ApiError, type GpuaasError, isTransient, ProtocolError, TransportError, UsageError } from "./errors.js";
import { backoff } from "./policy.js";
import type { AnyMessage } from "./stream.js";

const RETRIES = { firstDelayMs: 500, longestDelayMs: 15_000 };
/** The place to go on at is not known any more. */
const FORGOTTEN = ["RESUME_TOKEN_EXPIRED", "RESUME_TOKEN_INVALID"];

export type WatchStatus = "connecting" | "live" | "reconnecting" | "refused" | "ended";

export interface WatchHandlers<M> {
  /** A watch begins from nothing: all that is comes now, then `synced`. */
  anew(): void;
  /** Messages in their order, without heartbeats; `token` resumes after the last of them, if it is not empty. */
  messages(batch: M[], token: string): void;
  /** With the error when the API said it or did not answer, without when a stream just broke. */
  status(status: WatchStatus, error: GpuaasError | undefined): void;
}

export interface WatchMeans<M> {
  /** Asks for the stream; rejects when it is refused, or when there is no answer. */
  open(token: string, signal: AbortSignal): Promise<AsyncIterable<M[]>>;
  /** Whether a refused credential has been replaced since the stream was asked for. */
  isRenewed(): Promise<boolean>;
  /** From 0 to 1. */
  random(): number;
}

/** What no other attempt changes: a setting that cannot be used, or a server that does not speak the API. */
function isHopeless(error: unknown): error is GpuaasError {
  return error instanceof UsageError || error instanceof ProtocolError;
}

export class Watch<M extends AnyMessage> {
  #failures = 0;
  #running: AbortController | undefined;
  #timer: ReturnType<typeof setTimeout> | undefined;
  #over = false;
  #reported: WatchStatus | undefined;
  #token: string;

  /** With a token it goes on where an earlier watch of the same was. */
  constructor(
    private readonly means: WatchMeans<M>,
    private readonly handlers: WatchHandlers<M>,
    token = "",
  ) {
    this.#token = token;
  }

  start(): void {
    this.#tell("connecting");
    void this.#run();
  }

  /** Lets go of the connection until `wake`: a page that nobody sees needs none. */
  rest(): void {
    if (this.#over) return;
    clearTimeout(this.#timer);
    this.#running?.abort();
    this.#running = undefined;
  }

  /** Goes on at once, also when it waits before another attempt. */
  wake(): void {
    if (this.#over || this.#running) return;
    clearTimeout(this.#timer);
    void this.#run();
  }

  /** Ends it; no handler is called any more. */
  close(): void {
    this.rest();
    this.#over = true;
  }

  async #run(): Promise<void> {
    const stop = new AbortController();
    this.#running = stop;
    let lost: GpuaasError | undefined;
    // an answer to the question; what ends a stream under way, such as a changed access, is asked again
    let isAnswer = true;
    try {
      if (!this.#token) this.handlers.anew();
      for await (const batch of await this.means.open(this.#token, stop.signal)) {
        if (this.#running !== stop) return;
        isAnswer = false;
        if (this.#take(batch)) return;
      }
    } catch (error) {
      if (isHopeless(error) || error instanceof ApiError || (isAnswer && error instanceof TransportError)) lost = error;
    }
    const final = lost !== undefined && (isHopeless(lost) || (isAnswer && !isTransient(lost) && !(await this.#isRenewed(lost))));
    // whoever took this stream away has said what comes next
    if (this.#running !== stop) return;
    this.#running = undefined;
    stop.abort();
    this.#again(lost, final);
  }

  /** True when that was all. */
  #take(batch: M[]): boolean {
    this.#token = batch.findLast(({ resume_token }) => resume_token)?.resume_token ?? this.#token;
    this.#failures = 0;
    this.#tell("live");
    const news = batch.filter(({ heartbeat }) => !heartbeat);
    if (news.length > 0) this.handlers.messages(news, this.#token);
    if (!batch.some(({ end }) => end)) return false;
    this.#over = true;
    this.#running = undefined;
    this.#tell("ended");
    return true;
  }

  async #isRenewed(error: GpuaasError): Promise<boolean> {
    return error instanceof ApiError && error.httpStatus === 401 && (await this.means.isRenewed().catch(() => false));
  }

  #again(lost: GpuaasError | undefined, final: boolean): void {
    if (lost instanceof ApiError && FORGOTTEN.includes(lost.reason)) {
      this.#token = "";
    } else if (final) {
      this.#over = true;
      return this.#tell("refused", lost);
    }
    this.#tell("reconnecting", lost);
    this.#timer = setTimeout(() => void this.#run(), backoff(RETRIES, this.#failures++, this.means.random()));
  }

  #tell(status: WatchStatus, error?: GpuaasError): void {
    if (status === this.#reported && !error) return;
    this.#reported = status;
    this.handlers.status(status, error);
  }
}
