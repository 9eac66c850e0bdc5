/** One stream of a watch: opened, read line by line, and given up when it is silent. */
import { ApiError, ProtocolError } from "./errors.js";
import { type CallOptions, chunksOf, MOST_ERROR_BYTES, parse, readAll, refusal, send } from "./fetch.js";
import { linesOf } from "./lines.js";
import { Deadline } from "./policy.js";

/** The parts of a message that are the same in every watch. */
export interface AnyMessage {
  /** Goes on after this message. */
  resume_token?: string;
  /** All that was there at the beginning has been sent. */
  synced?: object;
  heartbeat?: object;
  /** Nothing can happen any more; the last message. */
  end?: object;
}

/** The server sends at least one message every 15 seconds by default; after three times that the stream is dead. */
const SILENCE_MS = 45_000;

/** The messages of one stream, those that came together in one list. Rejects with what the API refused it with, or when no answer came. */
export async function openStream<M extends AnyMessage>(options: CallOptions, url: string, signal: AbortSignal): Promise<AsyncGenerator<M[]>> {
  const silence = new Deadline(SILENCE_MS, signal);
  try {
    const request = new Request(url, { headers: { Accept: "application/x-ndjson" }, cache: "no-store" });
    const response = await send(options, request, undefined, undefined, silence.signal);
    if (response.ok) return messagesOf<M>(response, silence);
    const bytes = await readAll(response, MOST_ERROR_BYTES, silence.signal);
    throw refusal(response, bytes && parse(bytes));
  } catch (error) {
    silence.done();
    throw silence.translate(error);
  }
}

async function* messagesOf<M extends AnyMessage>(response: Response, silence: Deadline): AsyncGenerator<M[]> {
  try {
    for await (const lines of linesOf(chunksOf(response, silence.signal))) {
      silence.extend(SILENCE_MS);
      const messages: M[] = [];
      let failure: unknown;
      for (const line of lines) {
        try {
          messages.push(messageOf(line, response.headers) as M);
        } catch (error) {
          failure = error;
          break;
        }
      }
      if (messages.length > 0) yield messages;
      if (failure) throw failure;
    }
  } catch (error) {
    throw silence.translate(error);
  } finally {
    silence.done();
  }
}

/** The message of a line; throws the error that a line holds. */
function messageOf(line: Uint8Array, headers: Headers): AnyMessage {
  const message = parse(line);
  if (typeof message !== "object" || message === null || Array.isArray(message)) throw new ProtocolError("a line of the stream is not a JSON object");
  if (!("error" in message)) return message;
  const code = (message.error as { code?: unknown } | null)?.code;
  throw new ApiError(typeof code === "number" ? code : 0, message, headers);
}
