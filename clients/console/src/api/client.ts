/** The typed client of the API, generated from its OpenAPI document, with the session's token on every call. */
import type { paths } from "@gpuaas/sdk";
import createClient, { type Middleware } from "openapi-fetch";
import { ensureGood } from "../session/lifecycle";
import { currentSession, endSession } from "../session/session";
import { type Problem, problemFrom, unreachable } from "./problem";

const authorize: Middleware = {
  async onRequest({ request }) {
    await ensureGood();
    const session = currentSession();
    if (session) request.headers.set("Authorization", `Bearer ${session.token}`);
    if (request.method !== "GET" && !request.headers.has("X-Idempotency-Key")) {
      request.headers.set("X-Idempotency-Key", crypto.randomUUID());
    }
    return request;
  },
  onError: () => unreachable(),
};

export const client = createClient<paths>({ baseUrl: "", credentials: "omit" });
client.use(authorize);

/** The data of an answer; throws a `Problem` otherwise, and ends the session when its token is refused. */
export async function unwrap<T>(
  call: Promise<{ data?: T; error?: unknown; response: Response }>,
): Promise<NonNullable<T>> {
  const { data, error, response } = await call;
  if (response.ok && data !== undefined) return data as NonNullable<T>;
  const problem = problemFrom(response.status, error, response.headers.get("X-Request-Id"));
  if (problem.status === 401) endSession(endOf(problem));
  throw problem;
}

/** Why a session ends whose token was refused. */
export function endOf({ reason }: Problem): "expired" | "refused" {
  return reason === "CREDENTIAL_EXPIRED" || (currentSession()?.expires ?? 0) <= Date.now() ? "expired" : "refused";
}

/** A call outside the generated client, with the same errors. */
export async function request<T>(path: string, init?: RequestInit): Promise<T> {
  let response: Response;
  try {
    response = await fetch(path, { credentials: "omit", ...init });
  } catch {
    throw unreachable();
  }
  const body: unknown = await response.json().catch(() => undefined);
  if (!response.ok) throw problemFrom(response.status, body, response.headers.get("X-Request-Id"));
  return body as T;
}
