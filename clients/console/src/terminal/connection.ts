/**
 * One terminal session over as many WebSockets as it takes: ticket, attach, acknowledged output, kept input,
 * pings, and resume after a lost connection. It knows nothing of the screen.
 */
import { decodeFrame, encodeFrame } from "./frames";
import { InputBuffer } from "./input";

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

export interface Ticket {
  ticket: string;
  websocket_path: string;
}

export interface Ready {
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

export interface Size {
  cols: number;
  rows: number;
}

/** The part of a WebSocket that is used. */
export interface Socket {
  binaryType: string;
  readonly readyState: number;
  send(data: string | ArrayBuffer): void;
  close(): void;
  onopen: ((event: Event) => void) | null;
  onmessage: ((event: MessageEvent) => void) | null;
  onclose: ((event: CloseEvent) => void) | null;
}

/** A session as a page leaves it, so that the same tab goes on with it after a reload. */
export interface Saved {
  ready: Ready;
  path: string;
  /** Offset of the next output byte. */
  received: number;
  /** Input that the platform has not confirmed, from this offset on. */
  input: { offset: number; data: Uint8Array };
  /** Milliseconds since the epoch. */
  time: number;
}

export type Phase = "connecting" | "ready" | "lost" | "ended";

export interface Ending {
  reason: string;
  message: string;
}

export interface Handlers {
  /** Shows output and calls `shown` when it is on the screen. */
  output(data: Uint8Array, shown: () => void): void;
  gap(from: number, to: number): void;
  phase(phase: Phase, ready: Ready | undefined, ending: Ending | undefined): void;
}

export interface Means {
  allocationId: string;
  ticket(): Promise<Ticket>;
  connect(path: string, subprotocol: string): Socket;
}

type Message = { type: string } & Record<string, unknown>;

export class Connection {
  private socket: Socket | undefined;
  private ready: Ready | undefined;
  private readonly input = new InputBuffer();
  private path = "";
  private received = 0;
  private shown = 0;
  private acknowledged = 0;
  private closed: Ending | undefined;
  private lostAt = 0;
  private retryMs = FIRST_RETRY_MS;
  private over = false;
  private pings = 0;
  private readonly timers = new Map<string, ReturnType<typeof setTimeout>>();

  constructor(
    private readonly means: Means,
    private readonly handlers: Handlers,
    private size: Size,
  ) {}

  async start(): Promise<void> {
    this.handlers.phase("connecting", undefined, undefined);
    const ticket = await this.means.ticket();
    if (this.over) return;
    this.path = ticket.websocket_path;
    this.open({ type: "attach", ticket: ticket.ticket, allocation_id: this.means.allocationId, ...this.size, term: "xterm-256color" });
  }

  /** Goes on with a session that another page left. */
  resumeFrom({ ready, path, received, input, time }: Saved): void {
    this.handlers.phase("lost", ready, undefined);
    this.ready = ready;
    this.path = path;
    this.received = this.shown = this.acknowledged = received;
    this.input.restore(input.offset, input.data);
    this.lostAt = time;
    this.resume();
  }

  /** What another page needs to go on with this session; nothing when there is none. */
  save(): Saved | undefined {
    if (this.over || !this.ready) return undefined;
    return { ready: this.ready, path: this.path, received: this.received, input: this.input.unconfirmed(), time: this.lostAt || Date.now() };
  }

  type(data: Uint8Array): void {
    if (this.over) return;
    this.input.add(data);
    this.flush();
  }

  resize(size: Size): void {
    if (size.cols === this.size.cols && size.rows === this.size.rows) return;
    this.size = size;
    if (this.ready && this.socket) this.say({ type: "resize", ...size });
  }

  /** Ends the session for good. */
  close(): void {
    if (this.over) return;
    if (this.ready && this.socket) this.say({ type: "close" });
    this.end({ reason: "closed_by_client", message: "" });
  }

  private open(first: Message): void {
    const socket = this.means.connect(this.path, SUBPROTOCOL);
    socket.binaryType = "arraybuffer";
    this.socket = socket;
    this.closed = undefined;
    socket.onopen = () => this.say(first);
    socket.onmessage = ({ data }: MessageEvent<string | ArrayBuffer>) => {
      if (socket !== this.socket) return;
      if (typeof data === "string") this.hear(JSON.parse(data) as Message);
      else this.receive(data);
    };
    socket.onclose = ({ code }) => {
      if (socket === this.socket) this.lost(code);
    };
  }

  private say(message: Message): void {
    this.send(JSON.stringify(message));
  }

  /** What a closing connection does not take is sent again after the resume, or has lost its meaning. */
  private send(data: string | ArrayBuffer): void {
    if (this.socket?.readyState === OPEN) this.socket.send(data);
  }

  private hear(message: Message): void {
    switch (message.type) {
      case "session_ready":
        return this.begin(message as unknown as Ready);
      case "gap":
        this.received = Number(message["to"]);
        this.shown = this.received;
        return this.handlers.gap(Number(message["from"]), this.received);
      case "input_ack":
        this.input.acknowledge(Number(message["offset"]));
        return this.flush();
      case "pong":
        return this.cancel("pong");
      case "closed":
        this.closed = { reason: String(message["reason"] ?? ""), message: String(message["message"] ?? "") };
    }
  }

  private begin(ready: Ready): void {
    this.ready = ready;
    this.retryMs = FIRST_RETRY_MS;
    this.lostAt = 0;
    if (!ready.resumed) this.received = this.shown = ready.output_offset;
    this.acknowledged = this.shown;
    this.input.ready(ready.input_offset, ready.input_window);
    this.flush();
    this.handlers.phase("ready", ready, undefined);
    this.ping();
  }

  private flush(): void {
    if (!this.ready || !this.socket || this.lostAt) return;
    for (const { offset, data } of this.input.take()) this.send(encodeFrame(offset, data));
  }

  private receive(message: ArrayBuffer): void {
    const frame = decodeFrame(message);
    if (!frame || frame.offset !== this.received) {
      // out of step: what is missing is asked for anew
      return this.drop();
    }
    this.received += frame.data.length;
    const until = this.received;
    this.handlers.output(frame.data, () => {
      this.shown = Math.max(this.shown, until);
      if (this.shown - this.acknowledged >= ACK_BYTES) this.acknowledge();
      else this.later("ack", ACK_PAUSE_MS, () => this.acknowledge());
    });
  }

  private acknowledge(): void {
    this.cancel("ack");
    if (this.lostAt || this.over || this.shown <= this.acknowledged) return;
    this.acknowledged = this.shown;
    this.say({ type: "ack", received: this.shown });
  }

  private ping(): void {
    this.later("ping", PING_MS, () => {
      this.say({ type: "ping", id: ++this.pings });
      this.later("pong", PONG_MS, () => this.drop());
      this.ping();
    });
  }

  /** Gives up this WebSocket, not the session. */
  private drop(): void {
    const socket = this.socket;
    if (!socket) return;
    socket.onclose = null;
    socket.onmessage = null;
    socket.close();
    this.lost(0);
  }

  private lost(code: number): void {
    this.socket = undefined;
    for (const name of ["ping", "pong", "ack"]) this.cancel(name);
    if (this.over) return;
    const final = (code === NORMAL || code >= PLATFORM_CODES) && this.closed?.reason !== "silent";
    if (final && this.closed) return this.end(this.closed);
    if (!this.ready) return this.end({ reason: "unreachable", message: "The terminal could not be opened." });
    const now = Date.now();
    this.lostAt ||= now;
    if (now - this.lostAt > this.ready.resume_seconds * 1000) {
      return this.end({ reason: "not_resumed", message: "The connection was lost for too long; the shell is gone." });
    }
    this.handlers.phase("lost", this.ready, undefined);
    this.later("retry", this.retryMs, () => this.resume());
    this.retryMs = Math.min(this.retryMs * 2, LONGEST_RETRY_MS);
  }

  private resume(): void {
    const { session_id, resume_token } = this.ready ?? {};
    this.open({ type: "resume", session_id, resume_token, received: this.received, ...this.size });
  }

  private end(ending: Ending): void {
    this.over = true;
    for (const timer of this.timers.values()) clearTimeout(timer);
    this.timers.clear();
    this.socket?.close();
    this.socket = undefined;
    this.handlers.phase("ended", this.ready, ending);
  }

  private later(name: string, ms: number, run: () => void): void {
    this.cancel(name);
    this.timers.set(
      name,
      setTimeout(() => {
        this.timers.delete(name);
        run();
      }, ms),
    );
  }

  private cancel(name: string): void {
    clearTimeout(this.timers.get(name));
    this.timers.delete(name);
  }
}
