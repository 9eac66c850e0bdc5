/** Sign-in with the embedded development issuer, which is served only on a developer's own machine. */
import { request } from "../api/client";
import { type Project, type Session, beginSession, currentSession } from "./session";

export interface Identity {
  principal: string;
  admin: boolean;
  projects: Project[];
}

/** Renew when less than this is left. */
const RENEW_MS = 10 * 60_000;

/** Where this browser keeps the code of the stack, which only its owner can read. */
const CODE_KEY = "gpuaas.sign-in-code";
const FRAGMENT = "#sign-in=";

/** The link that `make status` prints carries the code where no server sees it. */
function codeOfLink(): void {
  if (!location.hash.startsWith(FRAGMENT)) return;
  keepCode(decodeURIComponent(location.hash.slice(FRAGMENT.length)));
  history.replaceState(null, "", location.pathname + location.search);
}

export function keepCode(code: string): void {
  try {
    if (code) localStorage.setItem(CODE_KEY, code);
    else localStorage.removeItem(CODE_KEY);
  } catch {
    // without storage every sign-in asks for it
  }
}

export function keptCode(): string {
  try {
    return localStorage.getItem(CODE_KEY) ?? "";
  } catch {
    return "";
  }
}

codeOfLink();

export function listIdentities(): Promise<{ identities: Identity[] }> {
  return request("/dev/identities");
}

async function token(principal: string): Promise<{ token: string; expire_time: string }> {
  return request("/dev/sign-in", {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify({ principal, code: keptCode() }),
  });
}

export async function signIn(identity: Identity): Promise<Session> {
  const signed = await token(identity.principal);
  const session: Session = {
    token: signed.token,
    principal: identity.principal,
    admin: identity.admin,
    projects: identity.projects,
    project: identity.projects.length > 1 ? (identity.projects[0]?.id ?? "") : "",
    expires: Date.parse(signed.expire_time),
    renewable: true,
  };
  beginSession(session);
  return session;
}

/** Exchanges a token that ends soon; a failure is tried again at the next call. */
export async function renew(): Promise<void> {
  const session = currentSession();
  if (!session?.renewable || session.expires - Date.now() > RENEW_MS) return;
  try {
    const signed = await token(session.principal);
    beginSession({ ...session, token: signed.token, expires: Date.parse(signed.expire_time) });
  } catch {
    // the old token still works for a while
  }
}
