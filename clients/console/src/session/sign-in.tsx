/** Sign-in: with an identity provider, or with a token. */
import { useQuery } from "@tanstack/react-query";
import { type FormEvent, useCallback, useEffect, useState } from "react";
import { Problem } from "../api/problem";
import { Button, Skeleton } from "../ui/basics";
import { ChevronRight, KeyRound } from "../ui/icons";
import { ProblemNote } from "../ui/problem";
import { Logo, ThemeSwitch } from "../ui/shell";
import { whoIs } from "./caller";
import { lastFailure, sentenceOf } from "./failure";
import { type UsableIssuer, listIssuers } from "./issuers";
import { signIn } from "./lifecycle";
import { type EndReason, beginSession, endedBecause, firstProject, readToken } from "./session";
import { takeLink } from "./stack";

/** The identity providers, each with its way to sign in. */
function Issuers({ listed }: { listed: UsableIssuer[] }) {
  const [busy, setBusy] = useState("");
  const [error, setError] = useState<unknown>(lastFailure);
  const begin = useCallback(async (issuer: UsableIssuer) => {
    setBusy(issuer.issuer);
    setError(undefined);
    // the page stays busy until the browser has left it
    await signIn(issuer).catch((failure: unknown) => {
      setError(failure);
      setBusy("");
    });
  }, []);
  useEffect(() => {
    const own = listed.find(({ development }) => development);
    if (own && takeLink()) void begin(own);
  }, [listed, begin]);
  return (
    <>
      {error !== undefined && <Failure error={error} />}
      <div className="identities">
        {listed.map((issuer) => (
          <button key={issuer.issuer} type="button" className="identity" disabled={busy !== ""} onClick={() => begin(issuer)}>
            <KeyRound size={17} aria-hidden="true" />
            <span>
              <strong>{issuer.development ? issuer.display_name : `Continue with ${issuer.display_name}`}</strong>
            </span>
            {busy === issuer.issuer ? <span className="spinner" /> : <ChevronRight size={17} aria-hidden="true" />}
          </button>
        ))}
      </div>
    </>
  );
}

/** What the API says is shown as everywhere; what is wrong with the sign-in itself is one sentence. */
function Failure({ error }: { error: unknown }) {
  if (error instanceof Problem) return <ProblemNote error={error} />;
  return (
    <p className="notice" role="alert">
      {sentenceOf(error)}
    </p>
  );
}

/** What to say about the session before. */
const ENDED: Partial<Record<EndReason, string>> = {
  expired: "Your session has expired. Sign in again to continue.",
  refused: "Your sign-in has ended, or the server no longer accepts its token. Sign in again to continue.",
};

function TokenForm() {
  const [token, setToken] = useState("");
  const [problem, setProblem] = useState("");
  const [error, setError] = useState<unknown>();
  const [busy, setBusy] = useState(false);
  const submit = async (event: FormEvent) => {
    event.preventDefault();
    if (busy) return;
    setProblem("");
    setError(undefined);
    const text = token.trim().replace(/^Bearer\s+/i, "");
    const read = readToken(text);
    if (!read) return setProblem("This is not a valid token. A token has three parts separated by dots.");
    if (read.expires <= Date.now()) return setProblem("This token has expired.");
    setBusy(true);
    try {
      const { principal: named, platformRole, projects, organisations } = await whoIs(text);
      const principal = named || read.subject;
      beginSession({ token: text, principal, platformRole, projects, organisations, project: firstProject(principal, projects), expires: read.expires, renewAt: read.expires });
    } catch (failure) {
      if (failure instanceof Problem && failure.status === 401) setProblem("The server refused this token. Get a new one and paste it in full.");
      else setError(failure);
    }
    setBusy(false);
  };
  return (
    <form onSubmit={submit} className="token-form">
      <label htmlFor="token">Token</label>
      <textarea id="token" rows={3} spellCheck={false} autoComplete="off" placeholder="eyJ…" value={token} onChange={(event) => setToken(event.target.value)} aria-invalid={problem !== ""} aria-describedby="token-problem" />
      <p id="token-problem" className="field-problem" role="alert">
        {problem}
      </p>
      {error !== undefined && <ProblemNote error={error} />}
      <Button type="submit" busy={busy} disabled={token.trim() === ""}>
        <KeyRound size={16} /> Sign in with a token
      </Button>
    </form>
  );
}

/** With an identity provider where there is one; a token is the other way. */
function Ways() {
  const listed = useQuery({ queryKey: ["issuers"], queryFn: listIssuers, retry: false, staleTime: Infinity });
  if (listed.isPending) return <Skeleton lines={2} label="Loading" />;
  if (listed.error) return <ProblemNote error={listed.error} retry={() => listed.refetch()} />;
  if (listed.data.length === 0) {
    return (
      <>
        <p className="muted">This installation has no identity provider for the console. An administrator can issue you a token.</p>
        <TokenForm />
      </>
    );
  }
  return (
    <>
      <Issuers listed={listed.data} />
      <details className="use-token">
        <summary>Use a token</summary>
        <TokenForm />
      </details>
    </>
  );
}

export function SignIn() {
  const why = ENDED[endedBecause() ?? "signed_out"];
  useEffect(() => {
    document.title = "Sign in · GPUaaS";
  }, []);
  return (
    <main className="sign-in">
      <div className="sign-in-card">
        <Logo />
        <h1>Sign in</h1>
        {why && (
          <p className="notice" role="status">
            {why}
          </p>
        )}
        <Ways />
      </div>
      <ThemeSwitch />
    </main>
  );
}
