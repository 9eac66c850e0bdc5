import type { AddressInfo } from "node:net";
import { afterEach, beforeEach, expect, test } from "vitest";
import { WebSocket, WebSocketServer } from "ws";
import { CallTimeoutError, Client, Terminal, TerminalClosedError, type TerminalOptions } from "../src/index.js";

type Script = (socket: WebSocket, next: () => Promise<unknown>) => void | Promise<void>;

let server: WebSocketServer;
let scripts: Script[];
let firsts: Record<string, unknown>[];
let failures: unknown[];

beforeEach(async () => {
  firsts = [];
  failures = [];
  server = new WebSocketServer({ host: "127.0.0.1", port: 0, handleProtocols: () => "gpuaas.terminal.v1" });
  server.on("connection", (socket) => {
    const come: unknown[] = [];
    let wake: (() => void) | undefined;
    socket.on("message", (data: Buffer, binary) => {
      come.push(binary ? data : (JSON.parse(data.toString()) as unknown));
      wake?.();
    });
    const next = async () => {
      while (come.length === 0) await new Promise<void>((resolve) => (wake = resolve));
      return come.shift();
    };
    void next()
      .then((first) => {
        firsts.push(first as Record<string, unknown>);
        return scripts.shift()?.(socket, next);
      })
      .catch((error: unknown) => failures.push(error));
  });
  await new Promise<void>((resolve) => server.on("listening", resolve));
});
afterEach(() => {
  for (const client of server.clients) client.terminate();
  server.close();
  expect(failures).toEqual([]);
});

const ready = (changes: object = {}) =>
  JSON.stringify({ type: "session_ready", session_id: "s", resumed: false, resume_token: "r1", resume_seconds: 60, output_offset: 0, input_offset: 0, input_window: 8, ...changes });

function output(offset: number, data: string | Buffer): Buffer {
  const head = Buffer.alloc(8);
  head.writeBigUInt64BE(BigInt(offset));
  return Buffer.concat([head, Buffer.from(data)]);
}

function end(socket: WebSocket, reason: string, code = 1000): void {
  socket.send(JSON.stringify({ type: "closed", reason, message: `It is ${reason}.` }));
  socket.close(code);
}

/** The next input; acknowledgements come between. */
async function typed(next: () => Promise<unknown>): Promise<Buffer> {
  for (;;) {
    const message = await next();
    if (Buffer.isBuffer(message)) return message;
    expect(message).toMatchObject({ type: "ack" });
  }
}

function open(...played: Script[]): Promise<Terminal> {
  scripts = played;
  const options = { WebSocket, cols: 90, rows: 30, firstRetryMs: 1, timeoutMs: 5000 } as unknown as TerminalOptions;
  return Terminal.open(`http://127.0.0.1:${(server.address() as AddressInfo).port}`, "/api/v1/terminal", "a-1", "ticket", options);
}

const text = (bytes: Uint8Array | undefined) => (bytes ? Buffer.from(bytes).toString() : undefined);

test("input and output until the shell ends", async () => {
  const terminal = await open(async (socket, next) => {
    socket.send(ready());
    let at = 0;
    for (let told = ""; !told.endsWith("exit\n"); ) {
      const message = await typed(next);
      expect(message.readBigUInt64BE()).toBe(BigInt(at));
      expect(message.length, "within the window").toBeLessThanOrEqual(16);
      socket.send(JSON.stringify({ type: "input_ack", offset: at + message.length - 8 }));
      socket.send(output(at, message.subarray(8)));
      at += message.length - 8;
      told += message.subarray(8).toString();
    }
    socket.send('{"type":"exit","status":3}');
    end(socket, "exited");
  });
  await terminal.send("echo a long line and more\n");
  expect(await terminal.readUntil("long ")).toBe("echo a long ");
  await terminal.send("exit\n");
  expect(await terminal.readUntil("never")).toBe("line and more\nexit\n");
  expect(await terminal.read()).toBeUndefined();
  expect(terminal.exitStatus).toBe(3);
  expect(firsts).toEqual([{ type: "attach", ticket: "ticket", allocation_id: "a-1", term: "xterm-256color", cols: 90, rows: 30 }]);
});

test("output is acknowledged once it is taken, and the size is told", async () => {
  const heard: unknown[] = [];
  const terminal = await open(async (socket, next) => {
    socket.send(ready());
    socket.send(output(0, "abc"));
    heard.push(await next(), await next());
    end(socket, "exited");
  });
  expect(text(await terminal.read())).toBe("abc");
  terminal.resize(100, 40);
  expect(await terminal.read()).toBeUndefined();
  expect(heard).toEqual([{ type: "resize", cols: 100, rows: 40 }, { type: "ack", received: 3 }]);
});

test("a lost connection is resumed and input is sent once", async () => {
  const terminal = await open(
    async (socket, next) => {
      socket.send(ready());
      expect(await typed(next)).toEqual(output(0, "abcdef"));
      socket.send(output(0, "out"), () => socket.terminate());
    },
    async (socket, next) => {
      socket.send(ready({ resumed: true, resume_token: "r2", input_offset: 4, output_offset: 10 }));
      socket.send('{"type":"gap","from":3,"to":10}');
      expect(await typed(next)).toEqual(output(4, "ef"));
      socket.send('{"type":"input_ack","offset":6}');
      socket.send(output(10, "more"));
      end(socket, "exited");
    },
  );
  await terminal.send("abcdef");
  expect(await terminal.readUntil("never")).toBe("outmore");
  expect(terminal.lostBytes).toBe(7);
  expect(firsts[1]).toEqual({ type: "resume", session_id: "s", resume_token: "r1", received: 3, cols: 90, rows: 30 });
});

test.each([
  [4410, "allocation_ended"],
  [4401, "ticket_refused"],
  [4408, "idle"],
])("an end that is not the shell's is an error (%i)", async (code, reason) => {
  const terminal = await open((socket) => {
    socket.send(ready());
    end(socket, reason, code);
  });
  await expect(terminal.read()).rejects.toMatchObject({ name: "TerminalClosedError", reason });
});

test("a refused ticket, a silent platform and nobody at all are errors", async () => {
  await expect(open((socket) => end(socket, "ticket_refused", 4401))).rejects.toThrow("ticket_refused");
  await expect(open((socket) => socket.terminate())).rejects.toThrow(TerminalClosedError);
  const options = { WebSocket } as unknown as TerminalOptions;
  await expect(Terminal.open("http://127.0.0.1:1", "/x", "a-1", "t", options)).rejects.toThrow(TerminalClosedError);
  for (const path of ["", "//evil.example.com/x", "https://evil.example.com/x"]) {
    await expect(Terminal.open("http://127.0.0.1:1", path, "a-1", "t", options)).rejects.toThrow(TerminalClosedError);
  }
});

test.each(["{", "[]", "null", "{}", '{"type":"input_ack","offset":99}', '{"type":"gap","from":9,"to":1}', Buffer.alloc(0), Buffer.from("short"), output(5, "x")])(
  "a message out of step resumes (%#)",
  async (rubbish) => {
    const terminal = await open(
      (socket) => {
        socket.send(ready());
        socket.send(rubbish);
      },
      (socket) => {
        socket.send(ready({ resumed: true }));
        socket.send(output(0, "on"));
        end(socket, "exited");
      },
    );
    expect(text(await terminal.read())).toBe("on");
  },
);

test.each([{ input_window: "many" }, { input_offset: 5 }, { output_offset: -1 }, { resume_seconds: null }])("a session that makes no sense is refused (%#)", async (bad) => {
  await expect(open((socket) => socket.send(ready(bad)))).rejects.toThrow(TerminalClosedError);
});

test("a ticket that was lost with its answer is replaced by another one", async () => {
  const tickets = ["", "second"];
  const keys: unknown[] = [];
  const fetch = async (request: Request) => {
    keys.push(request.headers.get("x-idempotency-key"));
    return new Response(JSON.stringify({ ticket: tickets.shift(), websocket_path: "/api/v1/terminal" }));
  };
  scripts = [(socket) => void socket.send(ready())];
  const client = new Client({ baseUrl: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, fetch });
  const terminal = await client.openTerminal("a-1", { WebSocket } as unknown as TerminalOptions);
  expect(firsts[0]).toMatchObject({ ticket: "second", allocation_id: "a-1" });
  expect(new Set(keys).size).toBe(2);
  terminal.close();
});

test.each(["", "/", "/gpus", "/gpus/"])("a terminal is where the API is (%s)", async (place) => {
  const addresses: string[] = [];
  class Elsewhere extends WebSocket {
    constructor(url: string, protocol: string) {
      addresses.push(url);
      super(`ws://127.0.0.1:${(server.address() as AddressInfo).port}`, protocol);
    }
  }
  scripts = [(socket) => void socket.send(ready())];
  const options = { WebSocket: Elsewhere } as unknown as TerminalOptions;
  const terminal = await Terminal.open(`https://example.com${place}`, "/api/v1/terminal", "a-1", "t", options);
  expect(addresses).toEqual([`wss://example.com${place.replace(/\/$/, "")}/api/v1/terminal`]);
  terminal.close();
});

test("silence ends a read with a timeout", async () => {
  const terminal = await open((socket) => socket.send(ready()));
  await expect(terminal.read(20)).rejects.toThrow(CallTimeoutError);
  terminal.close();
  expect(await terminal.read()).toBeUndefined();
});

test("a platform that closes again and again is given up", async () => {
  const again: Script = (socket) => socket.close(1011);
  const terminal = await open((socket) => {
    socket.send(ready({ resume_seconds: 0 }));
    socket.close(1011);
  }, ...Array.from({ length: 20 }, () => again));
  await expect(terminal.read()).rejects.toMatchObject({ reason: "not_resumed" });
});

test("closing tells the platform", async () => {
  let told: unknown;
  const heard = new Promise<void>((resolve) => {
    void open(async (socket, next) => {
      socket.send(ready());
      told = await next();
      resolve();
    }).then((terminal) => terminal.close());
  });
  await heard;
  expect(told).toEqual({ type: "close" });
});
