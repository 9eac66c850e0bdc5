/** A real HTTP server that plays the API by a script. */
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { Client, type ClientOptions } from "../src/index.js";

export const TOKEN = "a.secret-token.of-tests";

export interface Reply {
  status?: number;
  body?: unknown;
  headers?: Record<string, string>;
  /** Takes the connection instead of an answer. */
  raw?: (response: ServerResponse, request: IncomingMessage) => void;
}

export interface Seen {
  verb: string;
  path: string;
  headers: IncomingMessage["headers"];
  body: string;
}

export class Api {
  seen: Seen[] = [];
  slept: number[] = [];
  #replies: Reply[] = [];
  #server: Server;
  #seen: (() => void) | undefined;

  constructor() {
    this.#server = createServer((request, response) => {
      const chunks: Buffer[] = [];
      request.on("data", (chunk: Buffer) => chunks.push(chunk));
      request.on("end", () => {
        this.seen.push({ verb: request.method ?? "", path: request.url ?? "", headers: request.headers, body: Buffer.concat(chunks).toString() });
        const reply = (this.#replies.length > 1 ? this.#replies.shift() : this.#replies[0]) ?? {};
        if (reply.raw) reply.raw(response, request);
        else {
          response.writeHead(reply.status ?? 200, { "content-type": "application/json", ...reply.headers });
          response.end(Buffer.isBuffer(reply.body) ? reply.body : JSON.stringify(reply.body ?? {}));
        }
        this.#seen?.();
      });
    });
  }

  async start(): Promise<this> {
    await new Promise<void>((resolve) => this.#server.listen(0, "127.0.0.1", resolve));
    return this;
  }

  get url(): string {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
  }

  plays(...replies: Reply[]): void {
    this.#replies = replies;
  }

  /** Resolves when the next request has come. */
  next(): Promise<void> {
    return new Promise((resolve) => (this.#seen = resolve));
  }

  /** A client whose waits between attempts take no time. */
  client(options: Partial<ClientOptions> = {}): Client {
    const sleep = (ms: number, signal: AbortSignal) => {
      signal.throwIfAborted();
      this.slept.push(ms);
      return new Promise<void>((resolve) => setImmediate(resolve));
    };
    return new Client({ baseUrl: this.url, token: TOKEN, sleep, ...options });
  }

  close(): Promise<void> {
    this.#server.closeAllConnections();
    return new Promise((resolve) => this.#server.close(() => resolve()));
  }
}

/** An answer as the API gives it to a call that it refuses. */
export function error(status: number, code: string, reason = "", headers: Record<string, string> = {}): Reply {
  const details = [
    { "@type": "type.googleapis.com/google.rpc.ErrorInfo", reason, domain: "gpuaas", metadata: { quota: "gpus" } },
    { "@type": "type.googleapis.com/google.rpc.RequestInfo", request_id: "r-1" },
    { "@type": "type.googleapis.com/google.rpc.BadRequest", field_violations: [{ field: "sku", description: "is required" }] },
  ];
  return { status, headers, body: { error: { code: status, status: code, message: "It is refused.", details } } };
}

/** A stream that ends after the messages. */
export function lines(...messages: unknown[]): Reply {
  return { body: Buffer.from(messages.map((message) => `${JSON.stringify(message)}\n`).join("")), headers: { "content-type": "application/x-ndjson" } };
}

export function allocation(state: string, status: object = {}): object {
  return { id: "a-1", status: { state, ...status } };
}
