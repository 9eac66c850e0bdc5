/** What can go wrong. Every exception of the SDK is a `GpuaasError`. */
import type { components } from "./schema.js";

export type Allocation = components["schemas"]["allocation.Allocation"];

const MOST_TEXT = 2000;

/** The text of a server as one may print it: without control characters, and not too long. */
export function plain(text: unknown): string {
  return String(text)
    .slice(0, MOST_TEXT)
    .replace(/[\p{C}\p{Zl}\p{Zp}]/gu, "\uFFFD");
}

export class GpuaasError extends Error {
  constructor(message: string, options?: ErrorOptions) {
    super(message, options);
    this.name = new.target.name;
  }
}

/** An argument or a setting cannot be used; nothing was sent. */
export class UsageError extends GpuaasError {}

/** No answer came. Whether the call had an effect is not known: repeat it with the same idempotency key. */
export class TransportError extends GpuaasError {
  constructor(
    message: string,
    readonly idempotencyKey?: string,
    options?: ErrorOptions,
  ) {
    super(message, options);
  }
}

/** No answer came in time. */
export class CallTimeoutError extends TransportError {}

/** The answer is not one of the API: not JSON, too large, or of another form. */
export class ProtocolError extends GpuaasError {}

/**
 * What the call asked for is made, and its secret was in an answer that got lost: it is not shown again. The message says what
 * to do.
 */
export class SecretLostError extends GpuaasError {
  constructor(
    message: string,
    /** What was made, without the secret. */
    readonly answer: object,
    /** What to do, such as "rotate the secret". */
    readonly advice: string,
    readonly idempotencyKey?: string,
  ) {
    super(message);
  }
}

export interface FieldViolation {
  field: string;
  description: string;
}

/** The API, or something before it, refused the call or failed. */
export class ApiError extends GpuaasError {
  /** What the API says, without what the exception's message adds: violations, reason and request id; empty where a proxy answered. */
  readonly detail: string;
  /** The `google.rpc.Code` by name, such as `NOT_FOUND`; empty where a proxy answered. */
  readonly status: string;
  /** One of the reasons of docs/reference/errors.md; empty where a proxy answered. Act on this. */
  readonly reason: string;
  /** What the reason refers to, such as `quota` and `limit`. */
  readonly metadata: Readonly<Record<string, string>>;
  readonly fieldViolations: readonly FieldViolation[];
  /** Names the request in logs; quote it when asking for help. */
  readonly requestId: string;

  constructor(
    readonly httpStatus: number,
    body: unknown,
    /** Of the answer, in lower case. */
    headers: { get(name: string): string | null },
    readonly idempotencyKey?: string,
    /** Seconds after which the API asks to try again. */
    readonly retryAfter?: number,
  ) {
    const error = object(object(body)["error"]);
    const details = array(error["details"]).map(object);
    const reason = details.map((part) => text(part["reason"])).find(Boolean) ?? "";
    const violations = details
      .flatMap((part) => array(part["field_violations"]).map(object))
      .map((part) => ({ field: text(part["field"]), description: text(part["description"]) }));
    const requestId = details.map((part) => text(part["request_id"])).find(Boolean) ?? headers.get("x-request-id") ?? "";
    const kind = headers.get("content-type") || "no content type";
    const detail = text(error["message"]);
    const message = detail || `HTTP ${httpStatus}, and the answer is not one of the API (${kind})`;
    const fields = violations.slice(0, 10).map(({ field, description }) => `; ${plain(field)}: ${plain(description)}`);
    const about = [reason, requestId && `request ${requestId}`].filter(Boolean).map(plain).join(", ");
    super(plain(message) + fields.join("") + (about && ` (${about})`));
    this.detail = detail;
    this.status = text(error["status"]);
    this.reason = reason;
    this.requestId = requestId;
    this.fieldViolations = violations;
    const metadata = details.map((part) => object(part["metadata"])).find((part) => Object.keys(part).length > 0) ?? {};
    this.metadata = Object.fromEntries(Object.entries(metadata).map(([key, value]) => [key, text(value)]));
  }
}

/** The allocation that was waited for cannot reach the state any more. */
export class AllocationFailedError extends GpuaasError {
  readonly reason: string;

  constructor(readonly allocation: Allocation) {
    const { state, failure } = allocation.status ?? {};
    const why = failure?.message ?? `its state is ${state}`;
    super(`allocation ${plain(allocation.id)}: ${plain(why)}${failure?.reason ? ` (${plain(failure.reason)})` : ""}`);
    this.reason = failure?.reason ?? "";
  }
}

/** The deadline of a waiter passed. The allocation goes on; `allocation` is its last known state. */
export class WaitTimeoutError extends GpuaasError {
  constructor(
    id: string,
    readonly allocation: Allocation | undefined,
    options?: ErrorOptions,
  ) {
    super(`allocation ${plain(id)}: the deadline passed; its state is ${plain(allocation?.status?.state ?? "not known")}`, options);
  }
}

/** The terminal ended otherwise than by its shell. `reason` is one of the protocol's, such as `allocation_ended`. */
export class TerminalClosedError extends GpuaasError {
  constructor(
    readonly reason: string,
    message = "",
  ) {
    super(`the terminal is closed: ${plain(message || reason)}`);
  }
}

/** Whether the same may succeed later: no answer came, the server is overloaded, or it failed. */
export function isTransient(error: unknown): boolean {
  return error instanceof TransportError || (error instanceof ApiError && (error.httpStatus === 429 || error.httpStatus >= 500));
}

function object(value: unknown): Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value) ? (value as Record<string, unknown>) : {};
}

function array(value: unknown): unknown[] {
  return Array.isArray(value) ? value : [];
}

function text(value: unknown): string {
  return typeof value === "string" ? value : "";
}
