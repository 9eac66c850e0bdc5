/** Sign-in: with an identity of the development issuer where there is one, or with a token. */
import { useQuery } from "@tanstack/react-query";
import { type FormEvent, useEffect, useState } from "react";
import { Problem } from "../api/problem";
import { Badge, Button, Skeleton } from "../ui/basics";
import { ChevronRight, KeyRound } from "../ui/icons";
import { ProblemNote } from "../ui/problem";
import { Logo, ThemeSwitch } from "../ui/shell";
import { whoIs } from "./caller";
import { type Identity, keepCode, keptCode, listIdentities, signIn } from "./dev-issuer";
import { type EndReason, beginSession, endedBecause, readToken } from "./session";

/** Asks for the code of a development stack, where the browser was not opened by the stack's link. */
function CodeForm({ done }: { done: () => void }) {
  const [code, setCode] = useState("");
  const submit = (event: FormEvent) => {
    event.preventDefault();
    keepCode(code.trim().replace(/^.*#sign-in=/, ""));
    done();
  };
  return (
    <form onSubmit={submit} className="token-form">
      <label htmlFor="code">Code of this development stack</label>
      <input id="code" type="password" autoComplete="off" value={code} onChange={(event) => setCode(event.target.value)} aria-describedby="code-hint" />
      <p id="code-hint" className="muted">
        <code>make status</code> prints a link with it.
      </p>
      <Button type="submit" disabled={code.trim() === ""}>
        Continue
      </Button>
    </form>
  );
}

function Identities() {
  const [code, setCode] = useState(keptCode);
  const listed = useQuery({ queryKey: ["identities"], queryFn: listIdentities, retry: false });
  const [busy, setBusy] = useState("");
  const [error, setError] = useState<unknown>();
  if (listed.isPending) return <Skeleton lines={2} label="Loading identities" />;
  // without the embedded issuer the address does not exist
  if (listed.error instanceof Problem && [403, 404].includes(listed.error.status)) return null;
  if (listed.error) return <ProblemNote error={listed.error} retry={() => listed.refetch()} />;
  if (!code)
    return (
      <>
        {error !== undefined && <ProblemNote error={error} />}
        <CodeForm done={() => setCode(keptCode())} />
        <div className="or">or</div>
      </>
    );
  const begin = async (identity: Identity) => {
    setBusy(identity.principal);
    setError(undefined);
    await signIn(identity).catch((failure: unknown) => {
      if (failure instanceof Problem && failure.reason === "CREDENTIAL_INVALID") {
        keepCode("");
        setCode("");
      }
      setError(failure);
    });
    setBusy("");
  };
  return (
    <>
      <p className="muted">Development stack: choose an identity.</p>
      <div className="identities">
        {listed.data.identities.map((identity) => (
          <button key={identity.principal} type="button" className="identity" disabled={busy !== ""} onClick={() => begin(identity)}>
            <span className="avatar" aria-hidden="true">
              {identity.principal.replace(/^.*:/, "").slice(0, 1).toUpperCase()}
            </span>
            <span>
              <strong>{identity.principal}</strong>
              <small>{identity.projects.map(({ slug }) => slug).join(", ") || "no project"}</small>
            </span>
            {identity.admin && <Badge tone="idle">administrator</Badge>}
            {busy === identity.principal ? <span className="spinner" /> : <ChevronRight size={17} aria-hidden="true" />}
          </button>
        ))}
      </div>
      {error !== undefined && <ProblemNote error={error} />}
      <div className="or">or</div>
    </>
  );
}

/** What to say about the session before. */
const ENDED: Partial<Record<EndReason, string>> = {
  expired: "Your session has expired. Sign in again to continue.",
  refused: "The server refused your token. Sign in again to continue.",
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
      const { principal, admin, projects } = await whoIs(text);
      const project = projects.length > 1 ? (projects[0]?.id ?? "") : "";
      beginSession({ token: text, principal: principal || read.subject, admin, projects, project, expires: read.expires, renewable: false });
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
        <Identities />
        <TokenForm />
      </div>
      <ThemeSwitch />
    </main>
  );
}
