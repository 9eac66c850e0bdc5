/** Sign-in at an identity provider: authorization code with PKCE, renewal, sign-out. Loaded when it is needed. */
import * as oauth from "oauth4webapi";
import { SignInFailure } from "./failure";
import type { UsableIssuer } from "./issuers";
import { type Pending, keepPending, takePending } from "./pending";
import type { Source } from "./session";
import { ticket } from "./stack";

/** What the provider gave. */
export interface Tokens {
  token: string;
  /** Milliseconds since the epoch; unknown to some providers. */
  expires: number | undefined;
  source: Source;
}

const redirectUri = () => `${location.origin}/sign-in/callback`;

/** Plain HTTP is for providers of this machine. */
function options(issuer: string) {
  const local = ["127.0.0.1", "localhost", "[::1]"].includes(new URL(issuer).hostname);
  return { [oauth.allowInsecureRequests]: local };
}

async function discover(issuer: string): Promise<oauth.AuthorizationServer> {
  const address = new URL(issuer);
  const answer = await oauth.discoveryRequest(address, { algorithm: "oidc", ...options(issuer) });
  return oauth.processDiscoveryResponse(address, answer);
}

/** Leads the browser to the provider; `more` goes into the request beside what every one has. */
export async function begin(issuer: UsableIssuer, returnTo: string, more: Record<string, string> = {}): Promise<void> {
  const server = await discover(issuer.issuer);
  if (!server.authorization_endpoint) throw new SignInFailure(`${issuer.display_name} has no page to sign in at.`);
  const pending: Pending = {
    issuer: issuer.issuer,
    clientId: issuer.console_client_id,
    parameters: issuer.parameters,
    state: oauth.generateRandomState(),
    nonce: oauth.generateRandomNonce(),
    verifier: oauth.generateRandomCodeVerifier(),
    returnTo,
  };
  keepPending(pending);
  const page = new URL(server.authorization_endpoint);
  const proof = issuer.development ? await ticket() : undefined;
  const asked = {
    ...issuer.parameters,
    ...more,
    client_id: issuer.console_client_id,
    redirect_uri: redirectUri(),
    response_type: "code",
    scope: issuer.scopes.join(" "),
    state: pending.state,
    nonce: pending.nonce,
    code_challenge: await oauth.calculatePKCECodeChallenge(pending.verifier),
    code_challenge_method: "S256",
    ...(proof && { ticket: proof }),
  };
  for (const [name, value] of Object.entries(asked)) page.searchParams.set(name, value);
  location.assign(page);
}

/** Takes what the provider has sent the browser back with. Throws `SignInFailure`, or an error of the library. */
export async function complete(): Promise<Tokens & { returnTo: string }> {
  const pending = takePending();
  if (!pending) throw new SignInFailure("This sign-in was not begun in this tab, or has been completed.");
  const server = await discover(pending.issuer);
  const client: oauth.Client = { client_id: pending.clientId };
  let came: URLSearchParams;
  try {
    came = oauth.validateAuthResponse(server, client, new URL(location.href), pending.state);
  } catch (failure) {
    if (failure instanceof oauth.AuthorizationResponseError) throw refusal(failure);
    throw new SignInFailure("The answer is not one to this sign-in, so it was not used.");
  }
  const answer = await oauth.authorizationCodeGrantRequest(server, client, oauth.None(), came, redirectUri(), pending.verifier, {
    additionalParameters: pending.parameters,
    ...options(pending.issuer),
  });
  const given = await oauth.processAuthorizationCodeResponse(server, client, answer, { expectedNonce: pending.nonce, requireIdToken: true });
  return { ...tokens(given, pending), returnTo: pending.returnTo };
}

function refusal({ error, error_description }: oauth.AuthorizationResponseError): SignInFailure {
  if (error === "access_denied") return new SignInFailure("The sign-in was refused or cancelled.", true);
  return new SignInFailure(`The identity provider refused the sign-in: ${error_description ?? error}.`);
}

type Former = Pick<Source, "issuer" | "clientId" | "parameters"> & Partial<Source>;

function tokens(given: oauth.TokenEndpointResponse, { issuer, clientId, parameters, refreshToken, idToken }: Former): Tokens {
  return {
    token: given.access_token,
    expires: given.expires_in === undefined ? undefined : Date.now() + given.expires_in * 1000,
    source: {
      issuer,
      clientId,
      parameters,
      // one that rotates nothing gives none again
      refreshToken: given.refresh_token ?? refreshToken,
      idToken: given.id_token ?? idToken,
    },
  };
}

/** New tokens; `undefined` when the provider says that the sign-in has ended. */
export async function refresh(source: Source): Promise<Tokens | undefined> {
  if (!source.refreshToken) return undefined;
  const server = await discover(source.issuer);
  const client: oauth.Client = { client_id: source.clientId };
  try {
    const answer = await oauth.refreshTokenGrantRequest(server, client, oauth.None(), source.refreshToken, {
      additionalParameters: source.parameters,
      ...options(source.issuer),
    });
    return tokens(await oauth.processRefreshTokenResponse(server, client, answer), source);
  } catch (failure) {
    if (failure instanceof oauth.ResponseBodyError && failure.status < 500) return undefined;
    throw failure;
  }
}

/** How long a provider may take to say where a sign-in ends: later the person is at something else. */
const LEAVE_MS = 3000;

/** Has a token revoked by a request that goes on when the browser is led to another page; resolves once it is sent. */
function revoke(server: oauth.AuthorizationServer, source: Source, token: string): Promise<void> {
  return new Promise((sent) => {
    const send = (address: string, init: RequestInit) => {
      const answer = fetch(address, { ...init, keepalive: true });
      sent();
      return answer;
    };
    // not every provider lets a public client revoke it
    oauth.revocationRequest(server, { client_id: source.clientId }, oauth.None(), token, { [oauth.customFetch]: send, ...options(source.issuer) }).catch(() => sent());
  });
}

/**
 * Ends the sign-in at the provider of who signed out at `since`: revokes its token, however long that takes, and goes by its page,
 * which leads back.
 */
export async function leave(source: Source, since: number): Promise<void> {
  const server = await discover(source.issuer);
  // a token for offline access outlives the sign-in
  if (server.revocation_endpoint && source.refreshToken) await revoke(server, source, source.refreshToken);
  if (server.end_session_endpoint && source.idToken && Date.now() - since < LEAVE_MS) {
    const page = new URL(server.end_session_endpoint);
    page.searchParams.set("client_id", source.clientId);
    page.searchParams.set("id_token_hint", source.idToken);
    page.searchParams.set("post_logout_redirect_uri", `${location.origin}/`);
    location.assign(page);
  }
}
