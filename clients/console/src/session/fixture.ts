/** For tests: somebody is signed in. */
import type { PlatformRole } from "./rights";
import { type Session, beginSession } from "./session";

export function signInAs(platformRole: PlatformRole, change: Partial<Session> = {}): void {
  const expires = Date.now() + 3_600_000;
  beginSession({ token: "a.b.c", principal: "user:a", platformRole, projects: [], project: "", expires, renewAt: expires, ...change });
}
