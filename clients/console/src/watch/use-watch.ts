/** A watch for as long as a view looks at it. What it says is kept in the cache, so the next view goes on from there. */
import type { WatchMessage, WatchParams, WatchPath, WatchStatus } from "@gpuaas/sdk";
import { skipToken, useQuery, useQueryClient } from "@tanstack/react-query";
import { useEffect, useState } from "react";
import { client, refused } from "../api/client";
import { Problem, problemOf } from "../api/problem";

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

export interface Source<P extends WatchPath, S> {
  path: P;
  params: WatchParams<P>;
  empty: S;
  /** The state after some messages; changes nothing in place. */
  fold(state: S, batch: WatchMessage<P>[]): S;
}

export interface Watched<S> {
  /** Everything as it is now; `undefined` until it is complete for the first time. */
  view: S | undefined;
  status: WatchStatus;
  /** Why it was refused, or why it reconnects. */
  problem: Problem | undefined;
  retry(): void;
}

export function watchKey<P extends WatchPath>({ path, params }: Pick<Source<P, unknown>, "path" | "params">): [string, string, string] {
  return ["watch", path, JSON.stringify(params)];
}

interface Parts {
  synced?: object;
  end?: object;
}

/** Nothing is opened while it is not `wanted`. */
export function useWatch<P extends WatchPath, S>(source: Source<P, S>, wanted = true): Watched<S> {
  const queries = useQueryClient();
  const { path, params, empty, fold } = source;
  const key = watchKey(source);
  const kept = useQuery<Kept<S>>({ queryKey: key, queryFn: skipToken });
  const [state, setState] = useState<{ status: WatchStatus; problem: Problem | undefined }>({ status: "connecting", problem: undefined });
  const [attempt, setAttempt] = useState(0);
  useEffect(() => {
    if (!wanted) return undefined;
    const before = () => queries.getQueryData<Kept<S>>(key);
    // a first state that is not complete yet; what is shown meanwhile stays
    let draft: S | undefined;
    const watch = client.follow(
      path,
      params,
      {
        anew: () => {
          draft = empty;
        },
        messages: (batch, token) => {
          const view = fold(draft ?? before()?.view ?? empty, batch);
          const complete = draft === undefined || (batch as Parts[]).some(({ synced, end }) => synced ?? end);
          draft = complete ? undefined : view;
          if (complete) queries.setQueryData<Kept<S>>(key, { view, token });
        },
        status: (status, error) => {
          const problem = status === "refused" ? refused(error) : problemOf(error);
          setState({ status, problem: problem instanceof Problem ? problem : undefined });
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
    look();
    document.addEventListener("visibilitychange", look);
    // of a tab that nobody sees, too, the network comes back: it rests on
    window.addEventListener("online", look);
    return () => {
      clearTimeout(hiding);
      document.removeEventListener("visibilitychange", look);
      window.removeEventListener("online", look);
      watch.close();
    };
  }, [queries, ...key, empty, fold, attempt, wanted]);
  return { view: kept.data?.view, ...state, retry: () => setAttempt((count) => count + 1) };
}
