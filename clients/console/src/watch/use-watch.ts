/** A watch for as long as a view looks at it. What it says is kept in the cache, so the next view goes on from there. */
import { skipToken, useQuery, useQueryClient } from "@tanstack/react-query";
import { useEffect, useState } from "react";
import { endOf } from "../api/client";
import { type Problem, unreachable } from "../api/problem";
import { ensureGood } from "../session/lifecycle";
import { currentSession, endSession } from "../session/session";
import { type Means, type Message, Watch, type WatchStatus } from "./watch";

/**
 * A browser opens few connections to one server, shared by all its tabs: one that nobody sees lets go of its
 * stream after this many milliseconds, and resumes it when it is looked at.
 */
const HIDDEN_MS = 10_000;

/** A state of the whole and the token that goes on after it. */
export interface Kept<S> {
  view: S;
  token: string;
}

export interface Source<M extends Message, S> {
  /** Path and query, without the token. */
  url: string;
  empty: S;
  /** The state after some messages; changes nothing in place. */
  fold(state: S, batch: M[]): S;
}

export interface Watched<S> {
  /** Everything as it is now; `undefined` until it is complete for the first time. */
  view: S | undefined;
  status: WatchStatus;
  /** Why it was refused, or why it reconnects. */
  problem: Problem | undefined;
  retry(): void;
}

export function watchKey(url: string): [string, string] {
  return ["watch", url];
}

function meansFor(url: string): Means {
  let used: string | undefined;
  return {
    open: async (token, signal) => {
      await ensureGood();
      used = currentSession()?.token;
      const resume = token && `${url.includes("?") ? "&" : "?"}resume_token=${encodeURIComponent(token)}`;
      return fetch(url + resume, { headers: { Authorization: `Bearer ${used ?? ""}` }, credentials: "omit", cache: "no-store", signal }).catch(() => {
        throw unreachable();
      });
    },
    mayRetry: ({ status }) => status === 401 && used !== currentSession()?.token,
    random: Math.random,
  };
}

/** Nothing is opened while it is not `wanted`. */
export function useWatch<M extends Message, S>(source: Source<M, S>, wanted = true): Watched<S> {
  const queries = useQueryClient();
  const { url, empty, fold } = source;
  const kept = useQuery<Kept<S>>({ queryKey: watchKey(url), queryFn: skipToken });
  const [state, setState] = useState<{ status: WatchStatus; problem: Problem | undefined }>({ status: "connecting", problem: undefined });
  const [attempt, setAttempt] = useState(0);
  useEffect(() => {
    if (!wanted) return undefined;
    const before = () => queries.getQueryData<Kept<S>>(watchKey(url));
    // a first state that is not complete yet; what is shown meanwhile stays
    let draft: S | undefined;
    const watch = new Watch<M>(
      meansFor(url),
      {
        anew: () => {
          draft = empty;
        },
        messages: (batch, token) => {
          const view = fold(draft ?? before()?.view ?? empty, batch);
          const complete = draft === undefined || batch.some(({ synced, end }) => synced ?? end);
          draft = complete ? undefined : view;
          if (complete) queries.setQueryData<Kept<S>>(watchKey(url), { view, token });
        },
        status: (status, problem) => {
          setState({ status, problem });
          if (status === "refused" && problem?.status === 401) endSession(endOf(problem));
        },
      },
      before()?.token ?? "",
    );
    let hiding: ReturnType<typeof setTimeout> | undefined;
    const wake = () => {
      clearTimeout(hiding);
      watch.wake();
    };
    const look = () => {
      if (!document.hidden) return wake();
      clearTimeout(hiding);
      hiding = setTimeout(() => watch.rest(), HIDDEN_MS);
    };
    watch.start();
    look();
    document.addEventListener("visibilitychange", look);
    window.addEventListener("online", wake);
    return () => {
      clearTimeout(hiding);
      document.removeEventListener("visibilitychange", look);
      window.removeEventListener("online", wake);
      watch.close();
    };
  }, [queries, url, empty, fold, attempt, wanted]);
  return { view: kept.data?.view, ...state, retry: () => setAttempt((count) => count + 1) };
}
