/** What an administrator does who was refused for want of a second factor: sign in again with one. */
import { useState } from "react";
import { sentenceOf, takeRepeated } from "../session/failure";
import { signInAgain } from "../session/lifecycle";
import { useSession } from "../session/session";
import { Button } from "./basics";
import { KeyRound } from "./icons";

export function SecondFactor() {
  const source = useSession()?.source;
  const [busy, setBusy] = useState(false);
  // React keeps what the first call returns, so it stays for as long as this offer, and no other one shows it
  const [failure, setFailure] = useState<unknown>(takeRepeated);
  if (!source) return <p>You are signed in with a token. Sign out, and sign in with your identity provider, or with a token of a sign-in that had a second factor.</p>;
  // the page stays busy until the browser has left it
  const begin = () => {
    setBusy(true);
    setFailure(undefined);
    signInAgain().catch((error: unknown) => {
      setFailure(error);
      setBusy(false);
    });
  };
  return (
    <>
      <p>Sign in again with it: your identity provider asks for it, and you come back to this page. What was not saved has to be entered again.</p>
      <p>
        <Button small busy={busy} onClick={begin}>
          <KeyRound size={14} aria-hidden="true" /> Sign in again
        </Button>
      </p>
      {failure !== undefined && <p role="alert">{sentenceOf(failure)}</p>}
    </>
  );
}
