import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { ApiError, type GpuaasError, ProtocolError, TransportError, UsageError, Watch, type WatchStatus } from "../src/index.js";
import { type AnyMessage, openStream } from "../src/stream.js";

type Said = AnyMessage & { n?: number };

/** One answer of a server, which is written while the test goes on. */
class Stream {
  private sink!: ReadableStreamDefaultController<Uint8Array>;
  readonly response: Response;
  constructor(readonly token: string, readonly signal: AbortSignal) {
    const body = new ReadableStream<Uint8Array>({ start: (sink) => void (this.sink = sink) });
    signal.addEventListener("abort", () => this.breaks());
    this.response = new Response(body);
  }
  says(...messages: object[]) {
    return this.writes(messages.map((message) => `${JSON.stringify(message)}\n`).join(""));
  }
  writes(text: string) {
    this.sink.enqueue(new TextEncoder().encode(text));
    return settle();
  }
  breaks() {
    try {
      this.sink.error(new Error("cut"));
    } catch {
      // it was over before
    }
    return settle();
  }
  ends() {
    this.sink.close();
    return settle();
  }
}

const settle = () => vi.advanceTimersByTimeAsync(0);
const refusal = (status: number, reason: string) => new Response(JSON.stringify({ error: { code: status, message: "no", details: [{ reason }] } }), { status });

const unreachable = () => new TransportError("no answer came");

function begin(token = "", answers: (Response | Error)[] = [], isRenewed = false) {
  const streams: Stream[] = [];
  const asked: string[] = [];
  const seen = { news: 0, numbers: [] as number[], tokens: [] as string[], statuses: [] as WatchStatus[], error: undefined as GpuaasError | undefined };
  const watch = new Watch<Said>(
    {
      open: (from, signal) => {
        const answered = async (request: Request) => {
          asked.push(from);
          const answer = answers.shift();
          if (answer instanceof Error) throw answer;
          if (answer) return answer;
          streams.push(new Stream(from, request.signal));
          return streams.at(-1)!.response;
        };
        return openStream<Said>({ fetch: answered }, "http://127.0.0.1/watch", signal);
      },
      isRenewed: async () => isRenewed,
      random: () => 1,
    },
    {
      anew: () => void (seen.news += 1),
      messages: (batch, token) => {
        seen.numbers.push(...batch.flatMap(({ n }) => n ?? []));
        seen.tokens.push(token);
      },
      status: (status, error) => {
        seen.statuses.push(status);
        seen.error = error;
      },
    },
    token,
  );
  watch.start();
  return { watch, streams, asked, seen, last: () => streams.at(-1)! };
}

describe("the watch", () => {
  beforeEach(() => void vi.useFakeTimers());
  afterEach(() => {
    expect(vi.getTimerCount()).toBe(0);
    vi.useRealTimers();
  });

  it("begins from nothing and tells messages in their order, but no heartbeat", async () => {
    const { watch, seen, last } = begin();
    await settle();
    await last().writes('{"n":1}\n{"n":');
    await last().writes('2}\n{"synced":{},"resume_token":"t1"}\n{"heartbeat":{},"resume_token":"t2"}\n');
    expect(seen).toMatchObject({ news: 1, numbers: [1, 2], tokens: ["", "t2"], statuses: ["connecting", "live"] });
    watch.close();
  });

  it("resumes after a break where it was, also after a heartbeat", async () => {
    const { watch, asked, seen, last } = begin();
    await settle();
    await last().says({ n: 1 }, { synced: {}, resume_token: "t1" }, { heartbeat: {}, resume_token: "t2" });
    await last().breaks();
    expect(seen.statuses.at(-1)).toBe("reconnecting");
    await vi.advanceTimersByTimeAsync(500);
    await last().says({ n: 2, resume_token: "t3" });
    expect(asked).toEqual(["", "t2"]);
    expect(seen).toMatchObject({ news: 1, numbers: [1, 2] });
    expect(seen.statuses).toEqual(["connecting", "live", "reconnecting", "live"]);
    await last().ends();
    await vi.advanceTimersByTimeAsync(500);
    expect(asked).toEqual(["", "t2", "t3"]);
    watch.close();
  });

  it("begins anew when it breaks before there is a token", async () => {
    const { watch, asked, seen, last } = begin();
    await settle();
    await last().says({ n: 1 });
    await last().breaks();
    await vi.advanceTimersByTimeAsync(500);
    expect(asked).toEqual(["", ""]);
    expect(seen.news).toBe(2);
    watch.close();
  });

  it("goes on from a kept token without beginning anew", async () => {
    const { watch, asked, seen } = begin("kept");
    await settle();
    expect(asked).toEqual(["kept"]);
    expect(seen.news).toBe(0);
    watch.close();
  });

  it.each(["RESUME_TOKEN_EXPIRED", "RESUME_TOKEN_INVALID"])("begins anew after %s", async (reason) => {
    const { watch, asked, seen } = begin("old", [refusal(400, reason)]);
    await settle();
    await vi.advanceTimersByTimeAsync(500);
    expect(asked).toEqual(["old", ""]);
    expect(seen.news).toBe(1);
    expect(seen.statuses).not.toContain("refused");
    watch.close();
  });

  it("waits longer after each failure, and not after a success", async () => {
    const { watch, asked, last } = begin("", Array.from({ length: 7 }, unreachable));
    await settle();
    for (const ms of [500, 1000, 2000, 4000, 8000, 15_000, 15_000]) {
      const before = asked.length;
      await vi.advanceTimersByTimeAsync(ms - 1);
      expect(asked).toHaveLength(before);
      await vi.advanceTimersByTimeAsync(1);
      expect(asked).toHaveLength(before + 1);
    }
    await last().says({ n: 1, resume_token: "t" });
    await last().breaks();
    await vi.advanceTimersByTimeAsync(500);
    expect(asked.at(-1)).toBe("t");
    watch.close();
  });

  it("an error in the stream is reported after the messages before it, and retried when it may pass", async () => {
    const { watch, seen, last, asked } = begin();
    await settle();
    await last().says({ n: 1, resume_token: "t1" }, { error: { code: 503, message: "restarting" } });
    expect(seen.numbers).toEqual([1]);
    expect(seen.statuses.at(-1)).toBe("reconnecting");
    await vi.advanceTimersByTimeAsync(500);
    expect(asked).toEqual(["", "t1"]);
    watch.close();
  });

  it("text that is no message ends the watch instead of being passed over", async () => {
    const { seen, last, asked } = begin();
    await settle();
    await last().writes('{"n":1,"resume_token":"t1"}\nnonsense\n{"n":2,"resume_token":"t2"}\n');
    expect(seen.numbers).toEqual([1]);
    expect(seen.statuses.at(-1)).toBe("refused");
    expect(seen.error).toBeInstanceOf(ProtocolError);
    await vi.advanceTimersByTimeAsync(60_000);
    expect(asked).toEqual([""]);
  });

  it("a setting that cannot be used ends the watch, also when it was good before", async () => {
    const answers: (Response | Error)[] = [];
    const { asked, seen, last } = begin("", answers);
    await settle();
    await last().says({ n: 1, resume_token: "t1" });
    answers.push(new UsageError("the token file cannot be read"));
    await last().breaks();
    await vi.advanceTimersByTimeAsync(60_000);
    expect(asked).toEqual(["", "t1"]);
    expect(seen.statuses).toEqual(["connecting", "live", "reconnecting", "refused"]);
    expect(seen.error).toBeInstanceOf(UsageError);
  });

  it("a line that was cut off by a lost connection is no message of another form", async () => {
    const { watch, asked, seen, last } = begin();
    await settle();
    await last().writes('{"n":1,"resume_token":"t1"}\n{"n":');
    await last().ends();
    expect(seen.statuses.at(-1)).toBe("reconnecting");
    await vi.advanceTimersByTimeAsync(500);
    expect(asked).toEqual(["", "t1"]);
    watch.close();
  });

  it("what is refused stays refused, with its reason", async () => {
    const { asked, seen } = begin("", [refusal(404, "ALLOCATION_NOT_FOUND")]);
    await settle();
    await vi.advanceTimersByTimeAsync(60_000);
    expect(asked).toHaveLength(1);
    expect(seen.statuses).toEqual(["connecting", "refused"]);
    expect((seen.error as ApiError).reason).toBe("ALLOCATION_NOT_FOUND");
  });

  it("what ends a stream under way is asked again, and an answer in the stream is an answer", async () => {
    const { watch, asked, seen, last } = begin();
    await settle();
    await last().says({ n: 1, resume_token: "t1" });
    await last().says({ error: { code: 403, message: "Your access has changed." } });
    expect(seen.statuses.at(-1)).toBe("reconnecting");
    await vi.advanceTimersByTimeAsync(500);
    expect(asked).toEqual(["", "t1"]);
    await last().says({ error: { code: 403, message: "No." } });
    expect(seen.statuses.at(-1)).toBe("refused");
    await vi.advanceTimersByTimeAsync(60_000);
    expect(asked).toHaveLength(2);
    watch.close();
  });

  it("comes back with the new credential when the old one has run out", async () => {
    const { watch, asked, seen } = begin("t", [refusal(401, "CREDENTIAL_EXPIRED")], true);
    await settle();
    await vi.advanceTimersByTimeAsync(500);
    expect(asked).toEqual(["t", "t"]);
    expect(seen.statuses).not.toContain("refused");
    watch.close();
  });

  it("does not come back after the end", async () => {
    const { asked, seen, last } = begin();
    await settle();
    await last().says({ n: 1 }, { end: {}, resume_token: "t" });
    await vi.advanceTimersByTimeAsync(60_000);
    expect(seen.numbers).toEqual([1]);
    expect(seen.statuses).toEqual(["connecting", "live", "ended"]);
    expect(asked).toHaveLength(1);
  });

  it("drops a stream that has gone silent", async () => {
    const { watch, asked, streams, last } = begin();
    await settle();
    await last().says({ n: 1, resume_token: "t1" });
    await vi.advanceTimersByTimeAsync(44_000);
    await last().says({ heartbeat: {}, resume_token: "t2" });
    await vi.advanceTimersByTimeAsync(44_000);
    expect(asked).toHaveLength(1);
    await vi.advanceTimersByTimeAsync(1500);
    expect(streams[0]?.signal.aborted).toBe(true);
    expect(asked).toEqual(["", "t2"]);
    watch.close();
  });

  it("a closed one lets go of its connection and says nothing more", async () => {
    const { watch, asked, seen, last } = begin();
    await settle();
    await last().says({ n: 1, resume_token: "t1" });
    watch.close();
    expect(last().signal.aborted).toBe(true);
    await vi.advanceTimersByTimeAsync(60_000);
    watch.wake();
    expect(asked).toHaveLength(1);
    expect(seen.statuses).toEqual(["connecting", "live"]);
  });

  it("closed while it waits, it does not come back", async () => {
    const { watch, asked, last } = begin();
    await settle();
    await last().breaks();
    watch.close();
    await vi.advanceTimersByTimeAsync(60_000);
    expect(asked).toHaveLength(1);
  });

  it("rests without a connection and goes on where it was when it is woken", async () => {
    const { watch, asked, streams, seen, last } = begin();
    await settle();
    await last().says({ n: 1, resume_token: "t1" });
    watch.rest();
    await vi.advanceTimersByTimeAsync(600_000);
    expect(streams[0]?.signal.aborted).toBe(true);
    expect(asked).toHaveLength(1);
    watch.wake();
    watch.wake();
    await settle();
    expect(asked).toEqual(["", "t1"]);
    expect(seen.statuses).not.toContain("reconnecting");
    watch.close();
  });
});
