/**
 * Who is signed in. The token lives in the tabs of this browser and is gone with the last of them: a new tab gets it from
 * one that is open, and nothing stores it beyond a tab.
 */
import { useSyncExternalStore } from "react";
import { forgetLeft } from "../terminal/left";
import type { PlatformRole } from "./rights";
import type { MemberRole } from "./roles";

export interface Project {
  id: string;
  slug: string;
  /** For people; missing in a session that does not know it. */
  display_name?: string;
  /** Of who is signed in, by itself or by the organisation; missing in a session that does not know it. */
  role?: MemberRole;
  /** Id of its organisation; missing in a session that does not know it. */
  organisation_id?: string;
  /** Slug of its organisation; missing in a session that does not know it. */
  organisation?: string;
  /** It has ended for good; among those that operators see. */
  isClosed?: boolean;
}

/** An organisation that who is signed in is a member of. */
export interface OwnOrganisation {
  id: string;
  slug: string;
  role: MemberRole;
}

/** The sign-in that a token comes from. */
export interface Source {
  issuer: string;
  clientId: string;
  /** Added to every request for tokens. */
  parameters: Record<string, string>;
  refreshToken: string | undefined;
  /** Tells the issuer who signs out. */
  idToken: string | undefined;
}

export interface Session {
  token: string;
  /** Name of the principal; empty when only a token is known. */
  principal: string;
  /** On the whole platform; missing for who is only a member of projects. */
  platformRole?: PlatformRole;
  projects: Project[];
  /** Missing in a session that does not know them. */
  organisations?: OwnOrganisation[];
  /** The project that is looked at; empty: the only one. */
  project: string;
  /** Milliseconds since the epoch. */
  expires: number;
  /** When to renew it, in milliseconds since the epoch. */
  renewAt: number;
  /** When its sign-in was completed, in milliseconds since the epoch; a renewal leaves it. Missing for a token that was pasted. */
  signedIn?: number;
  /** Missing for a token that was pasted. */
  source?: Source;
}

/** `refused`: the server does not accept the token, for another reason than its age. */
export type EndReason = "signed_out" | "expired" | "refused";

const STORAGE_KEY = "gpuaas.session";
/** Set in a tab where somebody signed out, which then takes no session from another tab. */
const LEFT_KEY = "gpuaas.signed-out";
/** Which project was looked at in this tab, and by whom, when a session ended by itself. */
const PROJECT_KEY = "gpuaas.project";
/** How long a new tab waits for another one to answer, in milliseconds. */
const ADOPT_MS = 250;
const listeners = new Set<() => void>();
let session: Session | undefined = read();
let ended: EndReason | undefined;

function read(): Session | undefined {
  try {
    const text = sessionStorage.getItem(STORAGE_KEY);
    const stored = text ? (JSON.parse(text) as Session) : undefined;
    // one that has expired is renewed before its first use
    return stored && (stored.expires > Date.now() || stored.source?.refreshToken) ? stored : undefined;
  } catch {
    return undefined;
  }
}

function change(next: Session | undefined): void {
  session = next;
  try {
    if (next) sessionStorage.setItem(STORAGE_KEY, JSON.stringify(next));
    else sessionStorage.removeItem(STORAGE_KEY);
  } catch {
    // without storage the session ends with the page
  }
  for (const listener of listeners) listener();
}

/** What tabs of one browser say to each other. */
type TabMessage = { kind: "request" } | { kind: "session"; session: Session } | { kind: "signed_out"; principal: string };

const tabs = typeof BroadcastChannel === "undefined" ? undefined : new BroadcastChannel(STORAGE_KEY);
let adopting: (() => void) | undefined;
if (tabs) {
  tabs.onmessage = ({ data }: MessageEvent<TabMessage>) => {
    if (data.kind === "request" && session) tabs.postMessage({ kind: "session", session } satisfies TabMessage);
    if (data.kind === "session" && adopting && !session && data.session.expires > Date.now()) {
      change(data.session);
      adopting();
    }
    // another tab has renewed the session of both, or signed in again
    if (data.kind === "session" && session?.source && isNewer(data.session, session)) change({ ...data.session, project: projectAfter(session, data.session.projects) });
    if (data.kind === "signed_out" && session?.principal === data.principal) {
      ended = "signed_out";
      leave();
    }
  };
}

/** A later sign-in may have had a second factor, whatever expires first; of one sign-in the last renewal counts. */
function isNewer(other: Session, own: Session): boolean {
  if (other.principal !== own.principal || other.source?.issuer !== own.source?.issuer) return false;
  const later = (other.signedIn ?? 0) - (own.signedIn ?? 0);
  return later === 0 ? other.expires > own.expires : later > 0;
}

/** The project to look at: the one before while it is among them, else the first. Empty: the only one. */
export function projectOf(projects: Project[], before = ""): string {
  if (projects.some(({ id }) => id === before)) return before;
  return projects.length > 1 ? (projects[0]?.id ?? "") : "";
}

/**
 * The project to look at once one has these: the one before, which may have been the only one and was not named therefore. Who gets
 * into another project is not led into it.
 */
export function projectAfter({ project, projects }: Pick<Session, "project" | "projects">, now: Project[]): string {
  return projectOf(now, project || (now.length > 1 ? projects[0]?.id : ""));
}

function keepProject({ principal, projects, project }: Session): void {
  try {
    sessionStorage.setItem(PROJECT_KEY, JSON.stringify({ principal, project: project || (projects[0]?.id ?? "") }));
  } catch {
    // without storage the next session begins with the first project
  }
}

/** The project to begin with: the one that this person looked at when the last session of this tab expired, else the first. */
export function firstProject(principal: string, projects: Project[]): string {
  try {
    const kept = JSON.parse(sessionStorage.getItem(PROJECT_KEY) ?? "{}") as { principal?: string; project?: string };
    return projectOf(projects, kept.principal === principal ? kept.project : "");
  } catch {
    return projectOf(projects);
  }
}

/** Waits until every tab had the time to tell of a newer session. */
export function newestSession(): Promise<void> {
  if (!tabs) return Promise.resolve();
  tabs.postMessage({ kind: "request" } satisfies TabMessage);
  return new Promise((resolve) => setTimeout(resolve, ADOPT_MS));
}

/** Begins a session here and in the tabs that had the one before. */
export function shareSession(next: Session): void {
  beginSession(next);
  tabs?.postMessage({ kind: "session", session: next } satisfies TabMessage);
}

/** Takes over the session of another tab, if there is one; resolves when that is decided. */
export function adoptSession(): Promise<void> {
  if (session || !tabs || hasLeft()) return Promise.resolve();
  return new Promise((resolve) => {
    adopting = () => {
      adopting = undefined;
      resolve();
    };
    setTimeout(() => adopting?.(), ADOPT_MS);
    tabs.postMessage({ kind: "request" } satisfies TabMessage);
  });
}

function hasLeft(): boolean {
  try {
    return sessionStorage.getItem(LEFT_KEY) !== null;
  } catch {
    return false;
  }
}

function leave(): void {
  try {
    sessionStorage.setItem(LEFT_KEY, "yes");
    sessionStorage.removeItem(PROJECT_KEY);
  } catch {
    // without storage a reload may take the session of another tab
  }
  forgetLeft();
  change(undefined);
}

export function currentSession(): Session | undefined {
  return session;
}

export function beginSession(next: Session): void {
  ended = undefined;
  try {
    sessionStorage.removeItem(LEFT_KEY);
  } catch {
    // then there was nothing to remove
  }
  // after an expiry somebody else may sign in
  forgetLeft(next.principal);
  change(next);
}

export function chooseProject(project: string): void {
  if (session) change({ ...session, project });
}

/** What the server says now of who is signed in: roles change while a session lasts. */
export function learnCaller(caller: Pick<Session, "platformRole" | "projects" | "organisations">, token: string): void {
  if (session?.token !== token) return;
  // a project that was left is looked at no more
  const next = { ...session, ...caller, project: projectAfter(session, caller.projects) };
  if (JSON.stringify(next) !== JSON.stringify(session)) change(next);
}

export function endSession(reason: EndReason): void {
  if (!session) return;
  ended = reason;
  if (reason !== "signed_out") {
    // its address stays too, and what is done there is done in this project
    keepProject(session);
    return change(undefined);
  }
  tabs?.postMessage({ kind: "signed_out", principal: session.principal } satisfies TabMessage);
  leave();
}

/** Why the last session ended. */
export function endedBecause(): EndReason | undefined {
  return ended;
}

export function useSession(): Session | undefined {
  return useSyncExternalStore(
    (listener) => {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
    () => session,
    () => session,
  );
}

/** Expiry and subject of a JWT, unverified: only to show them and to renew in time. */
export function readToken(token: string): { expires: number; subject: string } | undefined {
  try {
    const part = token.split(".")[1] ?? "";
    const text = atob(part.replaceAll("-", "+").replaceAll("_", "/"));
    const claims = JSON.parse(text) as { exp?: unknown; sub?: unknown };
    if (typeof claims.exp !== "number") return undefined;
    return { expires: claims.exp * 1000, subject: typeof claims.sub === "string" ? claims.sub : "" };
  } catch {
    return undefined;
  }
}
