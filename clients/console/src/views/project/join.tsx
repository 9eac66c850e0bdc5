/** Where the link of an invitation leads. */
import { useState } from "react";
import { Link } from "wouter";
import { Problem } from "../../api/problem";
import { useAccept } from "../../api/tenancy";
import { forgetInvitation, invitation } from "../../session/invitation";
import { learnRoles } from "../../session/lifecycle";
import { Button, Card, Empty } from "../../ui/basics";
import { KeyRound } from "../../ui/icons";
import { ProblemNote } from "../../ui/problem";
import { Page } from "../../ui/shell";
import { roleWord } from "./parts";

/** Whether it may go better the next time: what is not valid never will be. */
const isTransient = (error: unknown) => error instanceof Problem && error.transient;

export default function Join() {
  const [token] = useState(invitation);
  const accept = useAccept();
  if (!token && !accept.data) {
    return (
      <Page title="Join">
        <Empty icon={<KeyRound size={28} />} title="This link has no invitation">
          Open the complete link from your invitation, or ask for a new one.
        </Empty>
      </Page>
    );
  }
  return (
    <Page title="Join">
      <Card title={accept.data ? `You are in ${accept.data.target}` : accept.error ? "The invitation was not accepted" : "You are invited"}>
        {accept.data ? (
          <>
            <p>Your role: {roleWord(accept.data.role)}.</p>
            <p className="next-step">
              <Link href="/" className="button primary" onClick={() => void learnRoles()}>
                Go to the overview
              </Link>
            </p>
          </>
        ) : (
          !accept.error && <p>Accept the invitation to become a member.</p>
        )}
        {accept.error && <ProblemNote error={accept.error} knownFields={["token"]} />}
        {!accept.data && (!accept.error || isTransient(accept.error)) && (
          <p className="next-step">
            <Button kind="primary" busy={accept.isPending} onClick={() => accept.mutate(token, { onSuccess: forgetInvitation })}>
              {accept.error ? "Try again" : "Accept"}
            </Button>
          </p>
        )}
      </Card>
    </Page>
  );
}
