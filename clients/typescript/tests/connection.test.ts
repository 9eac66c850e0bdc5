import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { type Socket, TerminalConnection, type TerminalEnding, type TerminalPhase, type TerminalReady } from "../src/index.js";
import { decodeFrame, encodeFrame } from "../src/frames.js";

const text = new TextEncoder();
const read = new TextDecoder();

class FakeSocket implements Socket {
  binaryType = "";
  readyState = 1;
  sent: (string | ArrayBuffer)[] = [];
  closed = false;
  onopen: Socket["onopen"] = null;
  onmessage: Socket["onmessage"] = null;
  onclose: Socket["onclose"] = null;
  onerror: Socket["onerror"] = null;
  send(data: string | ArrayBuffer) {
    this.sent.push(data);
  }
  close() {
    this.closed = true;
  }
  says(message: object | ArrayBuffer) {
    const data = message instanceof ArrayBuffer ? message : JSON.stringify(message);
    this.onmessage?.({ data } as never);
  }
  output(offset: number, data: string) {
    this.says(encodeFrame(offset, text.encode(data)));
  }
  breaks(code = 1006) {
    this.onclose?.({ code } as never);
  }
  messages(type?: string) {
    const all = this.sent.filter((data) => typeof data === "string").map((data) => JSON.parse(data as string) as { type: string });
    return type ? all.filter((message) => message.type === type) : all;
  }
  input() {
    return this.sent.filter((data) => data instanceof ArrayBuffer).map((data) => decodeFrame(data as ArrayBuffer)!).map(({ offset, data }) => [offset, read.decode(data)]);
  }
}

const READY: TerminalReady & { type: string } = {
  type: "session_ready",
  session_id: "s1",
  resumed: false,
  resume_token: "t1",
  resume_seconds: 60,
  output_offset: 0,
  input_offset: 0,
  output_window: 262_144,
  input_window: 10,
  recorded: false,
};

function begin() {
  const sockets: FakeSocket[] = [];
  const seen = { output: "", gaps: [] as [number, number][], phases: [] as TerminalPhase[], ending: undefined as TerminalEnding | undefined };
  const screen = { held: [] as (() => void)[], slow: false };
  const connection = new TerminalConnection(
    {
      allocationId: "a1",
      ticket: async () => ({ ticket: "secret", websocket_path: "/api/v1/terminal" }),
      connect: () => {
        const socket = new FakeSocket();
        sockets.push(socket);
        return socket;
      },
    },
    {
      output: (data, shown) => {
        seen.output += read.decode(data);
        if (screen.slow) screen.held.push(shown);
        else shown();
      },
      gap: (from, to) => seen.gaps.push([from, to]),
      phase: (phase, _, ending) => {
        seen.phases.push(phase);
        seen.ending = ending;
      },
    },
    { cols: 80, rows: 24 },
  );
  const last = () => sockets[sockets.length - 1]!;
  const attach = async () => {
    await connection.start();
    last().onopen?.({} as never);
    last().says(READY);
  };
  return { connection, sockets, seen, screen, last, attach };
}

describe("the terminal's connection", () => {
  beforeEach(() => void vi.useFakeTimers());
  afterEach(() => void vi.useRealTimers());

  it("attaches with the ticket in the first message and shows output", async () => {
    const { attach, last, seen } = begin();
    await attach();
    expect(last().messages()[0]).toEqual({ type: "attach", ticket: "secret", allocation_id: "a1", cols: 80, rows: 24, term: "xterm-256color" });
    last().output(0, "hello");
    expect(seen.output).toBe("hello");
    expect(last().messages("ack")).toEqual([]);
    vi.advanceTimersByTime(100);
    expect(last().messages("ack")).toEqual([{ type: "ack", received: 5 }]);
  });

  it("acknowledges only what was shown", async () => {
    const { attach, last, screen } = begin();
    await attach();
    screen.slow = true;
    last().output(0, "x".repeat(20_000));
    vi.advanceTimersByTime(1000);
    expect(last().messages("ack")).toEqual([]);
    screen.held.forEach((shown) => shown());
    expect(last().messages("ack")).toEqual([{ type: "ack", received: 20_000 }]);
  });

  it("sends no more input than the window, and the rest after the acknowledgement", async () => {
    const { attach, connection, last } = begin();
    await attach();
    connection.type(text.encode("0123456789abcdef"));
    expect(last().input()).toEqual([[0, "0123456789"]]);
    last().says({ type: "input_ack", offset: 4 });
    expect(last().input()[1]).toEqual([10, "abcd"]);
  });

  it("resumes after a break: asks for what is missing, sends again what was not taken", async () => {
    const { attach, connection, last, sockets, seen } = begin();
    await attach();
    last().output(0, "before");
    connection.type(text.encode("ls\n"));
    last().says({ type: "input_ack", offset: 1 });
    last().breaks();
    expect(seen.phases.at(-1)).toBe("lost");
    connection.type(text.encode("pwd"));
    vi.advanceTimersByTime(500);
    expect(sockets).toHaveLength(2);
    last().onopen?.({} as never);
    expect(last().messages()[0]).toEqual({ type: "resume", session_id: "s1", resume_token: "t1", received: 6, cols: 80, rows: 24 });
    last().says({ ...READY, resumed: true, resume_token: "t2", output_offset: 6, input_offset: 2 });
    expect(last().input()).toEqual([[2, "\npwd"]]);
    last().output(6, " after");
    expect(seen.output).toBe("before after");
    expect(seen.gaps).toEqual([]);
  });

  it("says nothing to a connection that is closing, and keeps the input", async () => {
    const { attach, connection, last, sockets } = begin();
    await attach();
    last().readyState = 2;
    const before = last().sent.length;
    connection.type(text.encode("ls"));
    connection.resize({ cols: 90, rows: 20 });
    expect(last().sent).toHaveLength(before);
    last().breaks(1005);
    vi.advanceTimersByTime(500);
    last().says({ ...READY, resumed: true });
    expect(sockets).toHaveLength(2);
    expect(last().input()).toEqual([[0, "ls"]]);
  });

  it("tells a gap and goes on behind it", async () => {
    const { attach, last, seen } = begin();
    await attach();
    last().breaks();
    vi.advanceTimersByTime(500);
    last().says({ ...READY, resumed: true, output_offset: 900 });
    last().says({ type: "gap", from: 0, to: 900 });
    last().output(900, "late");
    expect(seen.gaps).toEqual([[0, 900]]);
    expect(seen.output).toBe("late");
  });

  it("waits longer after each failure and gives up when the shell is gone", async () => {
    const { attach, last, sockets, seen } = begin();
    await attach();
    last().breaks();
    for (const ms of [500, 1000, 2000, 4000, 8000, 8000]) {
      const before = sockets.length;
      vi.advanceTimersByTime(ms - 1);
      expect(sockets).toHaveLength(before);
      vi.advanceTimersByTime(1);
      expect(sockets).toHaveLength(before + 1);
      last().breaks();
    }
    vi.advanceTimersByTime(60_000);
    last().breaks();
    expect(seen.ending?.reason).toBe("not_resumed");
  });

  it("ends when the platform says so, and does not come back", async () => {
    const { attach, last, sockets, seen } = begin();
    await attach();
    last().says({ type: "closed", reason: "allocation_ended", message: "The allocation is released." });
    last().breaks(4410);
    vi.advanceTimersByTime(60_000);
    expect(sockets).toHaveLength(1);
    expect(seen.ending).toEqual({ reason: "allocation_ended", message: "The allocation is released." });
  });

  it("notices a dead link by its missing pong", async () => {
    const { attach, last, sockets } = begin();
    await attach();
    vi.advanceTimersByTime(15_000);
    expect(last().messages("ping")).toEqual([{ type: "ping", id: 1 }]);
    vi.advanceTimersByTime(10_500);
    expect(sockets[0]?.closed).toBe(true);
    expect(sockets).toHaveLength(2);
  });

  it("drops a connection that is out of step and asks anew", async () => {
    const { attach, last, sockets, seen } = begin();
    await attach();
    last().output(7, "wrong");
    vi.advanceTimersByTime(500);
    expect(seen.output).toBe("");
    expect(sockets).toHaveLength(2);
  });

  it("goes on with a session that another page left, and with its input", async () => {
    const before = begin();
    await before.attach();
    before.last().output(0, "seen");
    before.connection.type(text.encode("typed"));
    before.last().says({ type: "input_ack", offset: 2 });
    const saved = before.connection.save()!;
    expect(saved).toMatchObject({ path: "/api/v1/terminal", received: 4, input: { offset: 2 } });
    const after = begin();
    after.connection.resumeFrom(saved);
    after.last().onopen?.({} as never);
    expect(after.last().messages()[0]).toMatchObject({ type: "resume", resume_token: "t1", received: 4 });
    after.last().says({ ...READY, resumed: true, output_offset: 4, input_offset: 3 });
    expect(after.last().input()).toEqual([[3, "ed"]]);
    after.last().output(4, " on");
    expect(after.seen).toMatchObject({ output: " on", phases: ["lost", "ready"] });
  });

  it("says a new size once, and the close", async () => {
    const { attach, connection, last, seen } = begin();
    await attach();
    connection.resize({ cols: 80, rows: 24 });
    connection.resize({ cols: 120, rows: 40 });
    connection.close();
    expect(last().messages().slice(1)).toEqual([{ type: "resize", cols: 120, rows: 40 }, { type: "close" }]);
    expect(seen.phases.at(-1)).toBe("ended");
  });

  it("says the size that the window got before the session was ready", async () => {
    const { connection, last } = begin();
    await connection.start();
    last().onopen?.({} as never);
    connection.resize({ cols: 40, rows: 12 });
    expect(last().messages()).toHaveLength(1);
    last().says(READY);
    expect(last().messages().slice(1)).toEqual([{ type: "resize", cols: 40, rows: 12 }]);
  });
});
