// An identity provider that nobody here wrote: node e2e/oidc-provider.mjs PORT CALLBACK LOGOUT_URI. Everybody may sign in,
// with any password. It says "ready" when it listens.
import { Provider } from "oidc-provider";

const [port, callback, logout] = process.argv.slice(2);
const DEVICE_CODE = "urn:ietf:params:oauth:grant-type:device_code";
const SCOPE = "openid offline_access";

const provider = new Provider(`http://127.0.0.1:${port}`, {
  clients: [
    {
      client_id: "console",
      token_endpoint_auth_method: "none",
      redirect_uris: [callback],
      post_logout_redirect_uris: [callback],
      grant_types: ["authorization_code", "refresh_token"],
      response_types: ["code"],
      backchannel_logout_uri: logout,
      backchannel_logout_session_required: true,
    },
    { client_id: "cli", token_endpoint_auth_method: "none", redirect_uris: [], grant_types: [DEVICE_CODE, "refresh_token"], response_types: [] },
  ],
  clientBasedCORS: () => true,
  cookies: { keys: ["of a test"] },
  // the gateway of the test is on this machine, which a provider refuses to call otherwise
  fetch: (url, options) => fetch(url, { ...options, dispatcher: undefined }),
  findAccount: (_, id) => ({ accountId: id, claims: () => ({ sub: id }) }),
  pkce: { required: () => true },
  features: {
    backchannelLogout: { enabled: true },
    deviceFlow: { enabled: true },
    revocation: { enabled: true },
    resourceIndicators: {
      enabled: true,
      useGrantedResource: () => true,
      getResourceServerInfo: (_, resource) => ({ scope: SCOPE, audience: resource, accessTokenFormat: "jwt", accessTokenTTL: 600, jwt: { sign: { alg: "RS256" } } }),
    },
  },
});
provider.on("backchannel.error", (_, error) => console.error("logout token not delivered:", error));
provider.listen(Number(port), "127.0.0.1", () => console.log("ready"));
