/** A shell in an allocation. Iterate a `Terminal` for its output, `send` its input; `terminalConnection` is for what shows it itself. */
import { type Client, unwrap } from "./client.js";
import { type Socket, TerminalConnection, type TerminalHandlers, type TerminalReady, type TerminalSize, type TerminalTicket } from "./connection.js";
import { CallTimeoutError, SecretLostError, TerminalClosedError, UsageError } from "./errors.js";

const PEACEFUL = ["exited", "closed_by_client"];

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

/** A ticket for a new session. */
export async function ticketOf(client: Client, allocation_id: string): Promise<TerminalTicket> {
  const ask = async () => {
    const { ticket = "", websocket_path = "" } = await unwrap(client.POST("/api/v1/allocations/{allocation_id}/terminal-sessions", { params: { path: { allocation_id } }, body: {} }));
    return { ticket, websocket_path };
  };
  try {
    return await ask();
  } catch (error) {
    if (!(error instanceof SecretLostError)) throw error;
    // the answer with the ticket got lost on its way
    return ask();
  }
}

/** Opens WebSockets of the API. */
function connectorOf(baseUrl: string, given: TerminalOptions["WebSocket"]): (path: string, subprotocol: string) => Socket {
  const make = given ?? (globalThis as { WebSocket?: TerminalOptions["WebSocket"] }).WebSocket;
  if (!make) throw new UsageError("there is no WebSocket here: pass that of the package ws as option WebSocket");
  return (path, subprotocol) => {
    if (!path.startsWith("/") || path.startsWith("//")) throw new TerminalClosedError("protocol_error", "the platform named no address for the terminal");
    // below the address of the API, which may have a path of its own
    const url = new URL(baseUrl.replace(/\/+$/, "") + path);
    url.protocol = url.protocol === "https:" ? "wss:" : "ws:";
    return new make(url.href, subprotocol);
  };
}

/**
 * The connection of a terminal for a program that shows it itself, such as an emulator in a page. `start` begins a session,
 * `resumeFrom` goes on with one that a page left.
 */
export function terminalConnection(
  client: Client,
  allocationId: string,
  handlers: TerminalHandlers,
  size: TerminalSize,
  options: Pick<TerminalOptions, "WebSocket" | "firstRetryMs"> = {},
): TerminalConnection {
  const connect = connectorOf(client.baseUrl, options.WebSocket);
  return new TerminalConnection({ allocationId, ticket: () => ticketOf(client, allocationId), connect, firstRetryMs: options.firstRetryMs }, handlers, size);
}

export class Terminal {
  /** Output bytes that were lost while the connection was. */
  lostBytes = 0;
  readonly #connection: TerminalConnection;
  #ready: TerminalReady | undefined;
  #output: { data: Uint8Array; shown: () => void }[] = [];
  /** Says that the output that was read last has been taken. */
  #taken: (() => void) | undefined;
  #end: { error: TerminalClosedError | undefined } | undefined;
  /** Those that wait for something to change. */
  #waiting = new Set<() => void>();

  private constructor(connect: (path: string, subprotocol: string) => Socket, path: string, allocationId: string, ticket: string, options: TerminalOptions) {
    this.#connection = new TerminalConnection(
      { allocationId, ticket: () => Promise.resolve({ ticket, websocket_path: path }), connect, firstRetryMs: options.firstRetryMs },
      {
        output: (data, shown) => {
          this.#output.push({ data, shown });
          this.#changed();
        },
        gap: (from, to) => {
          this.lostBytes += to - from;
        },
        phase: (_, ready, ending) => {
          this.#ready = ready;
          if (ending) this.#end ??= { error: PEACEFUL.includes(ending.reason) ? undefined : new TerminalClosedError(ending.reason, ending.message) };
          this.#changed();
        },
        sent: () => this.#changed(),
      },
      { cols: options.cols ?? 80, rows: options.rows ?? 24 },
    );
  }

  /** Opens the terminal of a ticket. */
  static async open(baseUrl: string, path: string, allocationId: string, ticket: string, options: TerminalOptions = {}): Promise<Terminal> {
    const terminal = new Terminal(connectorOf(baseUrl, options.WebSocket), path, allocationId, ticket, options);
    await terminal.#connection.start();
    try {
      await terminal.#until(() => terminal.#ready !== undefined, options.timeoutMs ?? 30_000);
    } catch (error) {
      terminal.close();
      throw error;
    }
    return terminal;
  }

  /** The shell's, once it has ended by itself. */
  get exitStatus(): number | undefined {
    return this.#connection.exitStatus;
  }

  /** Types the data; resolves when all of it has been sent. */
  async send(data: Uint8Array | string, timeoutMs = 60_000): Promise<void> {
    this.#connection.type(typeof data === "string" ? new TextEncoder().encode(data) : data);
    const { all } = this.#connection.typed;
    await this.#until(() => this.#connection.typed.sent >= all, timeoutMs);
  }

  /** The next output; `undefined` when the shell has ended. Throws `CallTimeoutError` when none comes in time. */
  async read(timeoutMs = Number.POSITIVE_INFINITY): Promise<Uint8Array | undefined> {
    this.#taken?.();
    this.#taken = undefined;
    await this.#until(() => this.#output.length > 0, timeoutMs);
    const next = this.#output.shift();
    this.#taken = next?.shown;
    return next?.data;
  }

  /** The output as text up to and with `end`, or all of it when the shell ends before; what follows is read later. */
  async readUntil(end: string, timeoutMs = 60_000): Promise<string> {
    const until = performance.now() + timeoutMs;
    let seen = new Uint8Array();
    const mark = new TextEncoder().encode(end);
    for (;;) {
      const at = indexOf(seen, mark);
      if (at >= 0) {
        if (at + mark.length < seen.length) this.#output.unshift({ data: seen.subarray(at + mark.length), shown: () => undefined });
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
    this.#connection.resize({ cols, rows });
  }

  /** Ends the shell. */
  close(): void {
    this.#connection.close();
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
