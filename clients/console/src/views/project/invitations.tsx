/** Invitations into a project or an organisation. */
import { useDeferredValue, useState } from "react";
import { type Invitation, type InvitationState, type MemberRole, type Tenant, useInvitations, useInvite, useRevoke } from "../../api/tenancy";
import { sentence } from "../../lib/text";
import { Badge, Button, Empty, Planned, type Tone } from "../../ui/basics";
import { Bulk, Chooser, useChosen } from "../../ui/bulk";
import { Confirm } from "../../ui/dialog";
import { SearchBox, Select } from "../../ui/form";
import { KeyRound, Plus, Search } from "../../ui/icons";
import { Loaded } from "../../ui/loaded";
import { ShowMore } from "../../ui/show-more";
import { TableCard } from "../../ui/table";
import { TextField } from "../catalog/parts";
import { RoleField, Secret, roleWord } from "./parts";

const TONES: Record<string, Tone> = { pending: "busy", accepted: "good", revoked: "idle", expired: "idle" };
const EMAIL = /^[^@\s]+@[^@\s]+\.[^@\s]+$/;

const STATES: { value: InvitationState | ""; label: string }[] = [{ value: "", label: "All" }, ...(["pending", "accepted", "revoked", "expired"] as const).map((value) => ({ value, label: sentence(value) }))];

/** The link that the invited person opens. The token is in its fragment, which no server gets. */
export function linkOf(origin: string, token: string): string {
  return `${origin}/join#${token}`;
}

function Invite({ tenant, done }: { tenant: Tenant; done: (invitation: Invitation) => void }) {
  const invite = useInvite(tenant);
  const [email, setEmail] = useState("");
  const [role, setRole] = useState<MemberRole>("member");
  const run = async () => {
    done(await invite.mutateAsync({ email: email.trim(), role }));
    setEmail("");
  };
  return (
    <Confirm
      trigger={
        <Button kind="primary">
          <Plus size={15} aria-hidden="true" /> Invite
        </Button>
      }
      title={`Invite into the ${tenant.kind}`}
      action="Invite"
      ready={EMAIL.test(email.trim())}
      run={run}
    >
      <p>You get a link to send. It works once, for this address, for seven days.</p>
      <TextField label="Email" value={email} onChange={setEmail} placeholder="alice@example.com" problem={email !== "" && !EMAIL.test(email.trim()) ? "Enter an email address." : undefined} />
      <RoleField value={role} onChange={setRole} />
    </Confirm>
  );
}

export function Invitations({ tenant, manages }: { tenant: Tenant; manages: boolean }) {
  const [search, setSearch] = useState("");
  const [state, setState] = useState<InvitationState | "">("");
  const asked = useDeferredValue(search);
  const found = useInvitations(tenant, asked, state);
  // what was found may be of an older search than the one that is typed
  const filtered = search.trim() !== "" || asked.trim() !== "" || state !== "";
  const clear = () => {
    setSearch("");
    setState("");
  };
  const revoke = useRevoke();
  const [made, setMade] = useState<Invitation>();
  const { chosen, choose, keep } = useChosen();
  const isOpen = ({ state }: Invitation) => manages && state === "pending";
  const selected = (found.data ?? []).filter((one) => isOpen(one) && chosen.has(one.id ?? ""));
  return (
    <>
      {made?.token && (
        <Secret title={`${made.email} is invited`} label="invitation link" text={linkOf(location.origin, made.token)} close={() => setMade(undefined)}>
          <p>
            Send this link. <strong>It is shown once</strong>. Anyone who signs in with this address can use it.
          </p>
        </Secret>
      )}
      {manages && (
        <div className="tab-actions">
          <Invite tenant={tenant} done={setMade} />
        </div>
      )}
      {(filtered || found.data?.length !== 0) && (
        <div className="filters" role="search" aria-label="Invitations">
          <SearchBox label="Search by email or who invited" placeholder="Email, or who invited" value={search} onChange={setSearch} />
          <Select label="State" value={state} onChoose={setState} options={STATES} />
        </div>
      )}
      <Loaded of={[found]} lines={4} label="Loading invitations">
        {(invitations) => (
          <>
            {invitations.length === 0 && filtered ? (
              <Empty icon={<Search size={28} />} title="No invitation matches" action={<Button onClick={clear}>Clear the filters</Button>}>
                Search for a part of an email address or of who invited, or choose another state.
              </Empty>
            ) : invitations.length === 0 ? (
              <Empty icon={<KeyRound size={28} />} title="No invitations">
                {manages ? "Invite a colleague by email. You get a link to send; whoever accepts it becomes a member." : "Owners invite colleagues by email."}
              </Empty>
            ) : (
              <>
                <Bulk
                  label="Selected invitations"
                  noun="invitation"
                  selected={selected}
                  chosen={chosen}
                  keep={keep}
                  id={({ id = "" }) => id}
                  name={({ email = "" }) => email}
                  after={() => undefined}
                  actions={[{ word: "Revoke", danger: true, open: selected, text: "The links of these invitations stop working immediately.", run: (one) => revoke.mutateAsync(one) }]}
                />
                <TableCard label="Invitations" columns={["Email", "Role", "State", ["Expires", "number optional"], ["Actions", "number"]]} foot={found.more && <ShowMore of={found} noun="invitation" />}>
                  {invitations.map((invitation) => (
                    <tr key={invitation.id}>
                      <td>
                        {isOpen(invitation) && (
                          <span className="row-before">
                            <Chooser name={invitation.email} checked={chosen.has(invitation.id ?? "")} choose={(on) => choose(invitation.id ?? "", on)} />
                          </span>
                        )}
                        <strong>{invitation.email}</strong>
                        <small className="muted block">by {invitation.inviter}</small>
                      </td>
                      <td>{roleWord(invitation.role)}</td>
                      <td>
                        <Badge tone={TONES[invitation.state ?? ""] ?? "idle"}>{sentence(invitation.state ?? "")}</Badge>
                      </td>
                      <td className="number optional">
                        <Planned value={invitation.expire_time} short />
                      </td>
                      <td className="number">
                        {isOpen(invitation) ? (
                          <Confirm
                            danger
                            trigger={
                              <Button small aria-label={`Revoke the invitation of ${invitation.email}`}>
                                Revoke
                              </Button>
                            }
                            title={`Revoke the invitation of ${invitation.email}?`}
                            action="Revoke"
                            run={() => revoke.mutateAsync(invitation)}
                          >
                            The link stops working immediately.
                          </Confirm>
                        ) : (
                          <span className="muted">–</span>
                        )}
                      </td>
                    </tr>
                  ))}
                </TableCard>
              </>
            )}
          </>
        )}
      </Loaded>
    </>
  );
}
