/**
 * One watch of the API over as many streams as it takes: it resumes after the last message, begins anew when that is
 * too long ago, and waits longer after each failure. It knows nothing of what is watched.
 */
import { Problem, problemFrom } from "../api/problem";
import { Lines } from "./lines";

const FIRST_RETRY_MS = 500;
const LONGEST_RETRY_MS = 15_000;
/** The server sends at least one message every 15 seconds by default; after three times that the stream is dead. */
const SILENCE_MS = 45_000;

/** The parts of a message that are the same in every watch. */
export interface Message {
  resume_token?: string;
  synced?: object;
  heartbeat?: object;
  /** Nothing can happen any more; the last message. */
  end?: object;
}

export type WatchStatus = "connecting" | "live" | "reconnecting" | "refused" | "ended";

export interface Handlers<M> {
  /** A watch begins from nothing: all that is comes now, then `synced`. */
  anew(): void;
  /** Messages in their order, without heartbeats; `token` resumes after the last of them, if it is not empty. */
  messages(batch: M[], token: string): void;
  status(status: WatchStatus, problem: Problem | undefined): void;
}

export interface Means {
  /** Asks for the stream; throws a `Problem` when there is no answer. */
  open(token: string, signal: AbortSignal): Promise<Response>;
  /** Whether a refused credential has been replaced since the stream was asked for. */
  mayRetry(problem: Problem): boolean;
  /** From 0 to 1. */
  random(): number;
}

/** What goes wrong in a stream: with a problem when the server said it, without when the stream just broke. */
class Broken extends Error {
  constructor(
    readonly problem: Problem | undefined,
    /** It is the answer to the question; what ends a stream under way, such as a changed access, is asked again. */
    readonly isAnswer: boolean,
  ) {
    super("the stream ended");
  }
}

export class Watch<M extends Message> {
  private failures = 0;
  private running: AbortController | undefined;
  private timer: ReturnType<typeof setTimeout> | undefined;
  private over = false;
  /** This stream has had a message. */
  private received = false;
  private reported: WatchStatus | undefined;

  /** With a token it goes on where an earlier watch of the same was. */
  constructor(
    private readonly means: Means,
    private readonly handlers: Handlers<M>,
    private token: string,
  ) {}

  start(): void {
    this.tell("connecting");
    void this.run();
  }

  /** Lets go of the connection until `wake`: a page that nobody sees needs none. */
  rest(): void {
    if (this.over) return;
    clearTimeout(this.timer);
    this.running?.abort();
    this.running = undefined;
  }

  /** Goes on at once, also when it waits before another attempt. */
  wake(): void {
    if (this.over || this.running) return;
    clearTimeout(this.timer);
    void this.run();
  }

  /** Ends it; no handler is called any more. */
  close(): void {
    this.rest();
    this.over = true;
  }

  private async run(): Promise<void> {
    const stop = new AbortController();
    this.running = stop;
    let broken: Broken | undefined;
    try {
      await this.stream(stop);
    } catch (error) {
      broken = error instanceof Broken ? error : new Broken(error instanceof Problem ? error : undefined, false);
    }
    // whoever took this stream away has said what comes next
    if (this.running !== stop) return;
    this.running = undefined;
    stop.abort();
    if (this.over) return;
    this.again(broken);
  }

  private async stream(stop: AbortController): Promise<void> {
    if (!this.token) this.handlers.anew();
    this.received = false;
    let silence = setTimeout(() => stop.abort(), SILENCE_MS);
    try {
      const response = await this.means.open(this.token, stop.signal);
      if (!response.ok) {
        const body: unknown = await response.json().catch(() => undefined);
        throw new Broken(problemFrom(response.status, body, response.headers.get("X-Request-Id")), true);
      }
      const reader = response.body?.getReader();
      if (!reader) throw new Broken(undefined, false);
      const lines = new Lines();
      for (;;) {
        const { done, value } = await reader.read();
        if (stop.signal.aborted || done) throw new Broken(undefined, false);
        clearTimeout(silence);
        silence = setTimeout(() => stop.abort(), SILENCE_MS);
        if (this.take(lines.take(value), response)) return;
      }
    } finally {
      clearTimeout(silence);
    }
  }

  /** True when that was all. */
  private take(lines: string[], response: Response): boolean {
    const batch: M[] = [];
    let [token, ended] = ["", false];
    let failure: Broken | undefined;
    for (const line of lines) {
      const message = parse<M & { error?: { code?: number } }>(line);
      if (!message || message.error) {
        const code = message?.error?.code;
        const problem = message && problemFrom(typeof code === "number" ? code : 503, message, response.headers.get("X-Request-Id"));
        failure = new Broken(problem, !this.received);
        break;
      }
      this.received = true;
      token = message.resume_token || token;
      ended ||= !!message.end;
      if (!message.heartbeat) batch.push(message);
    }
    if (token) this.token = token;
    if (lines.length > 0 && !failure) this.alive();
    if (batch.length > 0) this.handlers.messages(batch, this.token);
    if (failure) throw failure;
    if (!ended) return false;
    this.over = true;
    this.tell("ended");
    return true;
  }

  private alive(): void {
    this.failures = 0;
    this.tell("live");
  }

  private again(broken: Broken | undefined): void {
    const problem = broken?.problem;
    if (problem?.reason === "RESUME_TOKEN_EXPIRED" || problem?.reason === "RESUME_TOKEN_INVALID") {
      this.token = "";
    } else if (problem && broken.isAnswer && !problem.transient && !this.means.mayRetry(problem)) {
      this.over = true;
      this.tell("refused", problem);
      return;
    }
    this.tell("reconnecting", problem);
    const longest = Math.min(LONGEST_RETRY_MS, FIRST_RETRY_MS * 2 ** this.failures);
    this.failures += 1;
    // between half and all of it, so that not everybody comes back at the same moment
    this.timer = setTimeout(() => void this.run(), longest * (0.5 + this.means.random() / 2));
  }

  private tell(status: WatchStatus, problem?: Problem): void {
    if (status === this.reported && !problem) return;
    this.reported = status;
    this.handlers.status(status, problem);
  }
}

function parse<T>(line: string): T | undefined {
  try {
    const value: unknown = JSON.parse(line);
    return typeof value === "object" && value !== null ? (value as T) : undefined;
  } catch {
    return undefined;
  }
}
