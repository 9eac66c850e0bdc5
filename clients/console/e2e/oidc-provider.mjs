// An identity provider that nobody here wrote: node e2e/oidc-provider.mjs PORT CALLBACK LOGOUT_URI [SECONDS]. Everybody may
// sign in, with any password, and has a second factor: the code 000000. Access tokens live so many seconds, 600 unless
// given. It says "ready" when it listens.
import { Provider, interactionPolicy } from "oidc-provider";

const [port, callback, logout, seconds = "600"] = process.argv.slice(2);
const DEVICE_CODE = "urn:ietf:params:oauth:grant-type:device_code";
const SCOPE = "openid offline_access";
const GOLD = "urn:example:gold";

/** Asked for where a sign-in wants `GOLD`, after the password. */
const { Check, Prompt, base } = interactionPolicy;
const wanted = new Check("second_factor_missing", "a second factor is asked for", "unmet_authentication_requirements", ({ oidc }) => {
  const asks = oidc.params.acr_values?.split(" ").includes(GOLD);
  return asks && oidc.acr !== GOLD ? Check.REQUEST_PROMPT : Check.NO_NEED_TO_PROMPT;
});
const policy = base();
policy.add(new Prompt({ name: "second_factor", requestable: false }, wanted), 1);

const provider = new Provider(`http://127.0.0.1:${port}`, {
  acrValues: [GOLD],
  clients: [
    {
      client_id: "console",
      token_endpoint_auth_method: "none",
      redirect_uris: [callback],
      post_logout_redirect_uris: [callback, new URL("/", callback).href],
      grant_types: ["authorization_code", "refresh_token"],
      response_types: ["code"],
      backchannel_logout_uri: logout,
      backchannel_logout_session_required: true,
    },
    { client_id: "cli", token_endpoint_auth_method: "none", redirect_uris: [], grant_types: [DEVICE_CODE, "refresh_token"], response_types: [] },
  ],
  clientBasedCORS: () => true,
  cookies: { keys: ["of a test"] },
  // how the sign-in was made, which its tokens and those that renew them say
  extraTokenClaims: ({ oidc: { entities } }) => {
    const { acr, amr } = entities.AuthorizationCode ?? entities.RefreshToken ?? {};
    return acr && { acr, amr };
  },
  // the gateway of the test is on this machine, which a provider refuses to call otherwise
  fetch: (url, options) => fetch(url, { ...options, dispatcher: undefined }),
  findAccount: (_, id) => ({ accountId: id, claims: () => ({ sub: id }) }),
  interactions: { policy },
  pkce: { required: () => true },
  features: {
    backchannelLogout: { enabled: true },
    deviceFlow: { enabled: true },
    revocation: { enabled: true },
    resourceIndicators: {
      enabled: true,
      useGrantedResource: () => true,
      getResourceServerInfo: (_, resource) => ({ scope: SCOPE, audience: resource, accessTokenFormat: "jwt", accessTokenTTL: Number(seconds), jwt: { sign: { alg: "RS256" } } }),
    },
  },
});

// its own pages know a password alone
provider.use(async (context, next) => {
  if (!/^\/interaction\/[^/]+$/.test(context.path)) return next();
  const { prompt, session } = await provider.interactionDetails(context.req, context.res);
  if (prompt.name !== "second_factor") return next();
  if (context.query.code === "000000") {
    const login = { accountId: session.accountId, acr: GOLD, amr: ["pwd", "otp", "mfa"] };
    return provider.interactionFinished(context.req, context.res, { login }, { mergeWithLastSubmission: true });
  }
  context.type = "html";
  context.body = '<!doctype html><title>Second factor</title><form><label>Code <input name="code"></label><button>Verify</button></form>';
});
provider.on("backchannel.error", (_, error) => console.error("logout token not delivered:", error));
provider.listen(Number(port), "127.0.0.1", () => console.log("ready"));
