/** The SDK's client of the API, with the session's token on every call. */
import { Client, resilientFetch, unwrap as dataOf, wholePages } from "@gpuaas/sdk";
import { ensureGood } from "../session/lifecycle";
import { currentSession, endSession } from "../session/session";
import { Problem, problemOf } from "./problem";

/** Somebody looks at the page and can try again: it soon says what is wrong. */
const retries = { attempts: 3, firstDelayMs: 500, longestRetryAfterMs: 5000 };
/** Where the page is from; unit tests have no page. */
const baseUrl = typeof location === "undefined" ? "http://localhost" : location.origin;

async function token(): Promise<string | undefined> {
  await ensureGood();
  return currentSession()?.token;
}

export const client = new Client({ baseUrl, token, retries });

/** The data of an answer; throws a `Problem` otherwise, and ends the session when its token is refused. */
export async function unwrap<T>(call: Promise<{ data?: T }>): Promise<NonNullable<T>> {
  try {
    return await dataOf(call);
  } catch (error) {
    throw refused(error);
  }
}

/** Every page of a list, with the same errors. */
export async function allPages<T>(load: (page_token: string | undefined) => Promise<{ data?: T }>): Promise<NonNullable<T>[]> {
  const pages: NonNullable<T>[] = [];
  try {
    for await (const page of wholePages(load)) pages.push(page);
    return pages;
  } catch (error) {
    throw refused(error);
  }
}

/** The error as the console shows it; the session ends when its token was refused. */
export function refused(error: unknown): unknown {
  const problem = problemOf(error);
  if (problem instanceof Problem && problem.status === 401) endSession(endOf(problem));
  return problem;
}

/** Why a session ends whose token was refused. */
export function endOf({ reason }: Problem): "expired" | "refused" {
  return reason === "CREDENTIAL_EXPIRED" || (currentSession()?.expires ?? 0) <= Date.now() ? "expired" : "refused";
}

const send = resilientFetch({ retries });

/** A call without the session, or of what is not of the API, with the same errors. */
export async function request<T>(path: string, init?: RequestInit): Promise<T> {
  try {
    const response = await send(new Request(new URL(path, baseUrl), init));
    return (await response.json()) as T;
  } catch (error) {
    throw problemOf(error);
  }
}
