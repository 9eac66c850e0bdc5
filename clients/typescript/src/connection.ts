/**
 * One terminal session over as many WebSockets as it takes: ticket, attach, acknowledged output, kept input, pings, and resume after
 * a lost connection. It knows nothing of what shows it. See docs/reference/terminal-protocol.md.
 */
import { TerminalClosedError } from "./errors.js";
import { decodeFrame, encodeFrame } from "./frames.js";
import { InputBuffer } from "./input.js";

export const SUBPROTOCOL = "gpuaas.terminal.v1";
/** Output is acknowledged at least this often, in bytes; and when it pauses, after so many milliseconds. */
const ACK_BYTES = 16_384;
const ACK_PAUSE_MS = 60;
const PING_MS = 15_000;
const PONG_MS = 10_000;
const FIRST_RETRY_MS = 500;
const LONGEST_RETRY_MS = 8000;
/** Close codes above this are the platform's own; the rest are accidents of the network. */
const PLATFORM_CODES = 4000;
const NORMAL = 1000;
const OPEN = 1;

export interface TerminalTicket {
  ticket: string;
  websocket_path: string;
}

export interface TerminalReady {
  session_id: string;
  resumed: boolean;
  resume_token: string;
  resume_seconds: number;
  output_offset: number;
  input_offset: number;
  output_window: number;
  input_window: number;
  recorded: boolean;
}

export interface TerminalSize {
  cols: number;
  rows: number;
}

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

/** A session as a page leaves it, so that the same tab goes on with it after a reload. */
export interface TerminalSaved {
  ready: TerminalReady;
  path: string;
  /** Offset of the next output byte. */
  received: number;
  /** Input that the platform has not confirmed, from this offset on. */
  input: { offset: number; data: Uint8Array };
  /** Milliseconds since the epoch. */
  time: number;
}

export type TerminalPhase = "connecting" | "ready" | "lost" | "ended";

/** Why it ended: a reason of the protocol, `unreachable`, or `not_resumed`. */
export interface TerminalEnding {
  reason: string;
  message: string;
}

export interface TerminalHandlers {
  /** Shows output; whoever has shown it calls `shown`, and only then is it acknowledged. */
  output(data: Uint8Array, shown: () => void): void;
  /** Output between these offsets is lost. */
  gap(from: number, to: number): void;
  phase(phase: TerminalPhase, ready: TerminalReady | undefined, ending: TerminalEnding | undefined): void;
  /** More of the input has been sent. */
  sent?(): void;
}

export interface TerminalMeans {
  allocationId: string;
  ticket(): Promise<TerminalTicket>;
  connect(path: string, subprotocol: string): Socket;
  /** Milliseconds before the first try to resume; doubled for each later one. Default 500. */
  firstRetryMs?: number | undefined;
}

type Message = Record<string, unknown>;

export class TerminalConnection {
  /** The shell's, once it has ended by itself. */
  exitStatus: number | undefined;
  #socket: Socket | undefined;
  #ready: TerminalReady | undefined;
  readonly #input = new InputBuffer();
  #path = "";
  #received = 0;
  #shown = 0;
  #acknowledged = 0;
  #closed: TerminalEnding | undefined;
  #lostAt = 0;
  #tries = 0;
  #over = false;
  #pings = 0;
  /** The size that the platform knows. */
  #told: TerminalSize;
  readonly #timers = new Map<string, ReturnType<typeof setTimeout>>();

  constructor(
    private readonly means: TerminalMeans,
    private readonly handlers: TerminalHandlers,
    private size: TerminalSize,
  ) {
    this.#told = size;
  }

  /** Begins a session; rejects when the ticket is refused. */
  async start(): Promise<void> {
    this.handlers.phase("connecting", undefined, undefined);
    const { ticket, websocket_path } = await this.means.ticket();
    if (this.#over) return;
    this.#path = websocket_path;
    this.#open({ type: "attach", ticket, allocation_id: this.means.allocationId, term: "xterm-256color" });
  }

  /** Goes on with a session that another page left. */
  resumeFrom({ ready, path, received, input, time }: TerminalSaved): void {
    this.handlers.phase("lost", ready, undefined);
    this.#ready = ready;
    this.#path = path;
    this.#received = this.#shown = this.#acknowledged = received;
    this.#input.restore(input.offset, input.data);
    this.#lostAt = time;
    this.#resume();
  }

  /** What another page needs to go on with this session; nothing when there is none. */
  save(): TerminalSaved | undefined {
    if (this.#over || !this.#ready) return undefined;
    return { ready: this.#ready, path: this.#path, received: this.#received, input: this.#input.unconfirmed(), time: this.#lostAt || Date.now() };
  }

  type(data: Uint8Array): void {
    if (this.#over) return;
    this.#input.add(data);
    this.#flush();
  }

  /** How much was typed, and how much of that has been sent, in bytes since the session began. */
  get typed(): { all: number; sent: number } {
    return this.#input.progress();
  }

  resize({ cols, rows }: TerminalSize): void {
    if (cols === this.size.cols && rows === this.size.rows) return;
    this.size = { cols, rows };
    if (this.#ready) this.#tellSize();
  }

  /** Nothing before a connection is open, which begins with the size, nor before its session is ready. */
  #tellSize(): void {
    if (this.#told !== this.size && this.#send(JSON.stringify({ type: "resize", ...this.size }))) this.#told = this.size;
  }

  /** Ends the session for good. */
  close(): void {
    if (this.#over) return;
    if (this.#ready && this.#socket) this.#say({ type: "close" });
    this.#end({ reason: "closed_by_client", message: "" });
  }

  #open(first: Message): void {
    let socket: Socket;
    try {
      socket = this.means.connect(this.#path, SUBPROTOCOL);
    } catch (error) {
      const reason = error instanceof TerminalClosedError ? error.reason : "unreachable";
      return this.#end({ reason, message: `The terminal could not be opened: ${(error as Error).message}` });
    }
    socket.binaryType = "arraybuffer";
    this.#socket = socket;
    this.#closed = undefined;
    socket.onopen = () => {
      socket.send(JSON.stringify({ ...first, ...this.size }));
      this.#told = this.size;
    };
    socket.onmessage = ({ data }: { data: unknown }) => {
      // what is out of step is dropped: what is missing is asked for anew
      if (socket === this.#socket && !this.#hear(data)) this.#drop();
    };
    // what happened is told by the close event that follows
    socket.onerror = () => undefined;
    socket.onclose = ({ code }: { code: number }) => {
      if (socket === this.#socket) this.#lost(code);
    };
  }

  #say(message: Message): void {
    this.#send(JSON.stringify(message));
  }

  /** What a closing connection does not take is sent again after the resume, or has lost its meaning. */
  #send(data: string | ArrayBuffer): boolean {
    if (this.#socket?.readyState !== OPEN) return false;
    this.#socket.send(data);
    return true;
  }

  /** Takes a message; whether it follows the one before. */
  #hear(data: unknown): boolean {
    if (typeof data !== "string") return data instanceof ArrayBuffer && this.#receive(data);
    let message: Message | null;
    try {
      message = JSON.parse(data) as Message | null;
    } catch {
      return false;
    }
    switch (message?.["type"]) {
      case "session_ready":
        return this.#begin(message as unknown as TerminalReady);
      case "gap": {
        const { from, to } = message;
        if (!isOffset(from) || !isOffset(to) || from > to) return false;
        this.#received = this.#shown = this.#acknowledged = to;
        this.handlers.gap(from, to);
        return true;
      }
      case "input_ack":
        if (!isOffset(message["offset"]) || !this.#input.acknowledge(message["offset"])) return false;
        this.#flush();
        return true;
      case "pong":
        this.#cancel("pong");
        return true;
      case "exit":
        this.exitStatus = typeof message["status"] === "number" ? message["status"] : undefined;
        return true;
      case "closed":
        this.#closed = { reason: String(message["reason"] ?? ""), message: String(message["message"] ?? "") };
        return true;
      default:
        // a later kind of message
        return typeof message?.["type"] === "string";
    }
  }

  #begin(ready: TerminalReady): boolean {
    const { output_offset, input_offset, input_window, resume_seconds } = ready;
    if (![output_offset, input_offset, input_window, resume_seconds].every(isOffset)) return false;
    if (!this.#input.ready(input_offset, input_window)) return false;
    if (!ready.resumed) this.#received = this.#shown = output_offset;
    this.#ready = ready;
    this.#tries = 0;
    this.#lostAt = 0;
    this.#acknowledged = this.#shown;
    this.#flush();
    // the window may have changed since the first message
    this.#tellSize();
    this.handlers.phase("ready", ready, undefined);
    this.#ping();
    return true;
  }

  #flush(): void {
    if (!this.#ready || this.#lostAt || this.#socket?.readyState !== OPEN) return;
    for (const { offset, data } of this.#input.take()) this.#send(encodeFrame(offset, data));
    this.handlers.sent?.();
  }

  #receive(message: ArrayBuffer): boolean {
    const frame = this.#ready && decodeFrame(message);
    if (!frame || frame.offset !== this.#received) return false;
    this.#received += frame.data.length;
    const until = this.#received;
    this.handlers.output(frame.data, () => {
      this.#shown = Math.max(this.#shown, until);
      if (this.#shown - this.#acknowledged >= ACK_BYTES) this.#acknowledge();
      else if (!this.#over) this.#later("ack", ACK_PAUSE_MS, () => this.#acknowledge());
    });
    return true;
  }

  #acknowledge(): void {
    this.#cancel("ack");
    if (this.#lostAt || this.#over || this.#shown <= this.#acknowledged) return;
    this.#acknowledged = this.#shown;
    this.#say({ type: "ack", received: this.#shown });
  }

  #ping(): void {
    this.#later("ping", PING_MS, () => {
      this.#say({ type: "ping", id: ++this.#pings });
      this.#later("pong", PONG_MS, () => this.#drop());
      this.#ping();
    });
  }

  /** Gives up this WebSocket, not the session. */
  #drop(): void {
    const socket = this.#socket;
    if (!socket) return;
    socket.onclose = socket.onmessage = null;
    socket.close();
    this.#lost(0);
  }

  #lost(code: number): void {
    this.#socket = undefined;
    for (const name of ["ping", "pong", "ack"]) this.#cancel(name);
    if (this.#over) return;
    const final = (code === NORMAL || code >= PLATFORM_CODES) && this.#closed?.reason !== "silent";
    if (final && this.#closed) return this.#end(this.#closed);
    if (!this.#ready) return this.#end(this.#closed ?? { reason: "unreachable", message: "The terminal could not be opened." });
    const now = Date.now();
    this.#lostAt ||= now;
    if (now - this.#lostAt > this.#ready.resume_seconds * 1000) {
      return this.#end({ reason: "not_resumed", message: "The connection was lost for too long; the shell is gone." });
    }
    this.handlers.phase("lost", this.#ready, undefined);
    this.#later("retry", Math.min((this.means.firstRetryMs ?? FIRST_RETRY_MS) * 2 ** this.#tries++, LONGEST_RETRY_MS), () => this.#resume());
  }

  #resume(): void {
    const { session_id, resume_token } = this.#ready ?? {};
    this.#open({ type: "resume", session_id, resume_token, received: this.#received });
  }

  #end(ending: TerminalEnding): void {
    this.#over = true;
    for (const timer of this.#timers.values()) clearTimeout(timer);
    this.#timers.clear();
    this.#socket?.close();
    this.#socket = undefined;
    this.handlers.phase("ended", this.#ready, ending);
  }

  #later(name: string, ms: number, run: () => void): void {
    this.#cancel(name);
    this.#timers.set(
      name,
      setTimeout(() => {
        this.#timers.delete(name);
        run();
      }, ms),
    );
  }

  #cancel(name: string): void {
    clearTimeout(this.#timers.get(name));
    this.#timers.delete(name);
  }
}

function isOffset(value: unknown): value is number {
  return typeof value === "number" && Number.isSafeInteger(value) && value >= 0;
}
