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

export function listIdentities(): Promise<{ identities: Identity[] }> {
  return request("/dev/identities");
}

async function token(principal: string): Promise<{ token: string; expire_time: string }> {
  return request("/dev/sign-in", {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify({ principal }),
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
