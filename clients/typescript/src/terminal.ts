/**
 * A shell in an allocation: ticket, attach, acknowledged output, kept input, and resume after a lost connection. See
 * docs/reference/terminal-protocol.md. Iterate for its output; `send` for its input.
 */
import { CallTimeoutError, TerminalClosedError, UsageError } from "./errors.js";

export const SUBPROTOCOL = "gpuaas.terminal.v1";
const HEADER = 8;
const MOST_INPUT = 16_384;
const FIRST_RETRY_MS = 500;
const LONGEST_RETRY_MS = 8000;
/** Close codes above this are the platform's own; the rest are accidents of the network. */
const PLATFORM_CODES = 4000;
const NORMAL = 1000;
const OPEN = 1;
const PEACEFUL = ["exited", "closed_by_client"];

/** The part of a WebSocket that is used; that of browsers and of the package `ws` have it. */
export interface Socket {
  binaryType: string;
  readonly readyState: number;
  send(data: string | ArrayBuffer): void;
  close(): void;
  onopen: ((event: never) => void) | null;
  onmessage: ((event: never) => void) | null;
  onclose: ((event: never) => void) | null;
  onerror: ((event: never) => void) | null;
}

export interface TerminalOptions {
  cols?: number;
  rows?: number;
  /** Milliseconds until the shell must be there. Default 30,000. */
  timeoutMs?: number;
  /** In place of the platform's `WebSocket`. */
  WebSocket?: new (url: string, protocol: string) => Socket;
  /** Milliseconds before the first try to resume; doubled for each later one. */
  firstRetryMs?: number;
}

interface Ready {
  session_id: unknown;
  resumed: boolean;
  resume_token: unknown;
  resume_seconds: number;
  output_offset: number;
  input_offset: number;
  input_window: number;
}

export class Terminal {
  /** Output bytes that were lost while the connection was. */
  lostBytes = 0;
  /** The shell's, once it has ended by itself. */
  exitStatus: number | undefined;
  #ready: Ready | undefined;
  #socket: Socket | undefined;
  #output: Uint8Array[] = [];
  #received = 0;
  #acknowledged = 0;
  /** Input from `#confirmed` on that the platform has not confirmed; it is sent up to `#sent`. */
  #kept = new Uint8Array();
  #confirmed = 0;
  #sent = 0;
  #closed: TerminalClosedError | undefined;
  #lostAt: number | undefined;
  #tries = 0;
  #retry: ReturnType<typeof setTimeout> | undefined;
  #end: { error: TerminalClosedError | undefined } | undefined;
  /** Those that wait for something to change. */
  #waiting = new Set<() => void>();

  private constructor(
    private readonly url: string,
    private readonly first: Record<string, unknown>,
    private size: { cols: number; rows: number },
    private readonly make: new (url: string, protocol: string) => Socket,
    private readonly firstRetryMs: number,
  ) {}

  /** Opens the terminal of a ticket. */
  static async open(baseUrl: string, path: string, allocationId: string, ticket: string, options: TerminalOptions = {}): Promise<Terminal> {
    if (!path.startsWith("/") || path.startsWith("//")) throw new TerminalClosedError("protocol_error", "the platform named no address for the terminal");
    const make = options.WebSocket ?? (globalThis as { WebSocket?: TerminalOptions["WebSocket"] }).WebSocket;
    if (!make) throw new UsageError("there is no WebSocket here: pass that of the package ws as option WebSocket");
    const url = new URL(path, baseUrl);
    url.protocol = url.protocol === "https:" ? "wss:" : "ws:";
    const size = { cols: options.cols ?? 80, rows: options.rows ?? 24 };
    const first = { type: "attach", ticket, allocation_id: allocationId, term: "xterm-256color" };
    const terminal = new Terminal(url.href, first, size, make, options.firstRetryMs ?? FIRST_RETRY_MS);
    terminal.#connect();
    try {
      await terminal.#until(() => terminal.#ready !== undefined, options.timeoutMs ?? 30_000);
    } catch (error) {
      terminal.#finish(undefined);
      throw error;
    }
    return terminal;
  }

  /** Types the data; resolves when all of it has been sent. */
  async send(data: Uint8Array | string, timeoutMs = 60_000): Promise<void> {
    this.#kept = joined(this.#kept, typeof data === "string" ? new TextEncoder().encode(data) : data);
    this.#flush();
    const end = this.#confirmed + this.#kept.length;
    await this.#until(() => this.#sent >= end, timeoutMs);
  }

  /** The next output; `undefined` when the shell has ended. Throws `CallTimeoutError` when none comes in time. */
  async read(timeoutMs = Number.POSITIVE_INFINITY): Promise<Uint8Array | undefined> {
    if (this.#output.length === 0) this.#acknowledge();
    await this.#until(() => this.#output.length > 0, timeoutMs);
    return this.#output.shift();
  }

  /** The output as text up to and with `end`, or all of it when the shell ends before; what follows is read later. */
  async readUntil(end: string, timeoutMs = 60_000): Promise<string> {
    const until = performance.now() + timeoutMs;
    let seen = new Uint8Array();
    const mark = new TextEncoder().encode(end);
    for (;;) {
      const at = indexOf(seen, mark);
      if (at >= 0) {
        if (at + mark.length < seen.length) this.#output.unshift(seen.subarray(at + mark.length));
        return new TextDecoder().decode(seen.subarray(0, at + mark.length));
      }
      const chunk = await this.read(Math.max(0, until - performance.now()));
      if (!chunk) return new TextDecoder().decode(seen);
      seen = joined(seen, chunk);
    }
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<Uint8Array> {
    for (let chunk = await this.read(); chunk; chunk = await this.read()) yield chunk;
  }

  /** The window has a new size. */
  resize(cols: number, rows: number): void {
    this.size = { cols, rows };
    this.#say({ type: "resize", cols, rows });
  }

  /** Ends the shell. */
  close(): void {
    if (this.#end) return;
    this.#say({ type: "close" });
    this.#finish(undefined);
  }

  #connect(): void {
    let socket: Socket;
    try {
      socket = new this.make(this.url, SUBPROTOCOL);
    } catch (error) {
      return this.#finish(new TerminalClosedError("unreachable", `the terminal could not be opened: ${(error as Error).message}`));
    }
    socket.binaryType = "arraybuffer";
    this.#socket = socket;
    const { session_id, resume_token } = this.#ready ?? {};
    const resume = { type: "resume", session_id, resume_token, received: this.#received };
    socket.onopen = () => socket.send(JSON.stringify({ ...(this.#ready ? resume : this.first), ...this.size }));
    socket.onmessage = ({ data }: { data: unknown }) => {
      if (socket === this.#socket && !this.#hear(data)) this.#drop(socket);
    };
    // what happened is told by the close event that follows
    socket.onerror = () => undefined;
    socket.onclose = ({ code }: { code: number }) => {
      if (socket === this.#socket) this.#lost(code);
    };
  }

  /** Takes a message; whether it follows the one before. */
  #hear(data: unknown): boolean {
    if (typeof data !== "string") return data instanceof ArrayBuffer && this.#take(data);
    let message: Record<string, unknown> | null;
    try {
      message = JSON.parse(data) as typeof message;
    } catch {
      return false;
    }
    switch (message?.["type"]) {
      case "session_ready":
        return this.#begin(message as unknown as Ready);
      case "gap": {
        const { from, to } = message;
        if (!isOffset(from) || !isOffset(to) || from > to) return false;
        this.lostBytes += to - from;
        this.#received = this.#acknowledged = to;
        return true;
      }
      case "input_ack": {
        const { offset } = message;
        if (!isOffset(offset) || offset < this.#confirmed || offset > this.#sent) return false;
        this.#kept = this.#kept.slice(offset - this.#confirmed);
        this.#confirmed = offset;
        this.#flush();
        return true;
      }
      case "exit":
        this.exitStatus = typeof message["status"] === "number" ? message["status"] : undefined;
        return true;
      case "closed":
        this.#closed = new TerminalClosedError(String(message["reason"] ?? ""), String(message["message"] ?? ""));
        return true;
      default:
        // a later kind of message
        return typeof message?.["type"] === "string";
    }
  }

  #begin(ready: Ready): boolean {
    const { output_offset, input_offset, input_window, resume_seconds } = ready;
    if (![output_offset, input_offset, input_window, resume_seconds].every(isOffset)) return false;
    if (input_offset < this.#confirmed || input_offset > this.#confirmed + this.#kept.length) return false;
    if (!ready.resumed) this.#received = this.#acknowledged = output_offset;
    this.#ready = ready;
    this.#sent = input_offset;
    this.#lostAt = undefined;
    this.#tries = 0;
    this.#flush();
    return true;
  }

  #take(message: ArrayBuffer): boolean {
    if (!this.#ready || message.byteLength <= HEADER) return false;
    if (new DataView(message).getBigUint64(0) !== BigInt(this.#received)) return false;
    const data = new Uint8Array(message, HEADER);
    this.#received += data.length;
    this.#output.push(data);
    this.#changed();
    return true;
  }

  /** Tells the platform what was taken, when there is something to tell. */
  #acknowledge(): void {
    if (this.#received <= this.#acknowledged || !this.#say({ type: "ack", received: this.#received })) return;
    this.#acknowledged = this.#received;
  }

  #flush(): void {
    const all = this.#confirmed + this.#kept.length;
    const window = this.#confirmed + (this.#ready?.input_window ?? 0);
    while (this.#ready && this.#lostAt === undefined && this.#socket?.readyState === OPEN) {
      const end = Math.min(all, window, this.#sent + MOST_INPUT);
      if (end <= this.#sent) break;
      const message = new ArrayBuffer(HEADER + end - this.#sent);
      new DataView(message).setBigUint64(0, BigInt(this.#sent));
      new Uint8Array(message, HEADER).set(this.#kept.subarray(this.#sent - this.#confirmed, end - this.#confirmed));
      this.#socket.send(message);
      this.#sent = end;
    }
    this.#changed();
  }

  #say(message: Record<string, unknown>): boolean {
    if (!this.#ready || this.#socket?.readyState !== OPEN) return false;
    this.#socket.send(JSON.stringify(message));
    return true;
  }

  /** Gives up this connection, not the session. */
  #drop(socket: Socket): void {
    socket.onclose = socket.onmessage = null;
    socket.close();
    this.#lost(0);
  }

  #lost(code: number): void {
    this.#socket = undefined;
    if (this.#end) return;
    const closed = this.#closed;
    this.#closed = undefined;
    const final = (code === NORMAL || code >= PLATFORM_CODES) && closed && closed.reason !== "silent";
    if (final) return this.#finish(PEACEFUL.includes(closed.reason) ? undefined : closed);
    if (!this.#ready) return this.#finish(closed ?? new TerminalClosedError("unreachable", "the terminal could not be opened"));
    const now = performance.now();
    this.#lostAt ??= now;
    if (now - this.#lostAt > this.#ready.resume_seconds * 1000) {
      return this.#finish(new TerminalClosedError("not_resumed", "the connection was lost for too long; the shell is gone"));
    }
    this.#retry = setTimeout(() => this.#connect(), Math.min(this.firstRetryMs * 2 ** this.#tries++, LONGEST_RETRY_MS));
  }

  #finish(error: TerminalClosedError | undefined): void {
    this.#end ??= { error };
    clearTimeout(this.#retry);
    this.#socket?.close();
    this.#socket = undefined;
    this.#changed();
  }

  #changed(): void {
    for (const wake of [...this.#waiting]) wake();
  }

  /** Waits for the condition, or the end; throws what the session ended with, or that the time is over. */
  #until(met: () => boolean, timeoutMs: number): Promise<void> {
    return new Promise((resolve, reject) => {
      const finish = (settle: () => void) => {
        clearTimeout(timer);
        this.#waiting.delete(look);
        settle();
      };
      const look = () => {
        if (met()) finish(resolve);
        else if (this.#end) finish(() => (this.#end?.error ? reject(this.#end.error) : resolve()));
      };
      const late = () => finish(() => reject(new CallTimeoutError("the terminal wrote nothing in time")));
      const timer = timeoutMs < 2 ** 31 ? setTimeout(late, timeoutMs) : undefined;
      this.#waiting.add(look);
      look();
    });
  }
}

function isOffset(value: unknown): value is number {
  return typeof value === "number" && Number.isSafeInteger(value) && value >= 0;
}

function joined(a: Uint8Array, b: Uint8Array): Uint8Array<ArrayBuffer> {
  const whole = new Uint8Array(a.length + b.length);
  whole.set(a);
  whole.set(b, a.length);
  return whole;
}

function indexOf(text: Uint8Array, mark: Uint8Array): number {
  for (let at = 0; at + mark.length <= text.length; at++) {
    if (mark.every((byte, i) => text[at + i] === byte)) return at;
  }
  return -1;
}
