/** Members of a project or an organisation, with their roles. */
import { type ReactNode, useDeferredValue, useState } from "react";
import { type Member, type MemberRole, ROLES, type Tenant, useAddMember, useChangeMember, useMembers, useRemoveMember } from "../../api/tenancy";
import { learnRoles } from "../../session/lifecycle";
import { useMay } from "../../session/rights";
import { useSession } from "../../session/session";
import { Badge, Button, Empty, Time } from "../../ui/basics";
import { Bulk, Chooser, useChosen } from "../../ui/bulk";
import { Confirm } from "../../ui/dialog";
import { SearchBox } from "../../ui/form";
import { KeyRound, Plus, Search } from "../../ui/icons";
import { Loaded } from "../../ui/loaded";
import { ProblemNote } from "../../ui/problem";
import { ShowMore } from "../../ui/show-more";
import { TableCard } from "../../ui/table";
import { SelectField, TextField } from "../catalog/parts";
import { RoleField } from "./parts";

/** Why no hand changes a membership. */
const MANAGED = "Only owners change roles and members.";
const GIVEN = "A group of the organisation's identity provider gives this role. Change the group there, or the roles of the group in Organisation, Groups.";

function AddMember({ tenant }: { tenant: Tenant }) {
  const add = useAddMember(tenant);
  const isAdmin = useMay("manage");
  const [principal, setPrincipal] = useState("");
  const [role, setRole] = useState<MemberRole>("member");
  const run = async () => {
    await add.mutateAsync({ principal: principal.trim(), role });
    setPrincipal("");
  };
  return (
    <Confirm
      trigger={
        <Button>
          <Plus size={15} aria-hidden="true" /> Add a member
        </Button>
      }
      title="Add a member"
      action="Add"
      ready={principal.trim() !== ""}
      run={run}
    >
      <p>{isAdmin ? "For anybody who is registered on the platform." : "For somebody who is in the organisation. Invite everybody else by email."}</p>
      <TextField label="Principal" mono value={principal} onChange={setPrincipal} placeholder="user:alice" />
      <RoleField value={role} onChange={setRole} />
    </Confirm>
  );
}

/** Whom an owner removes or changes together with others: neither the owner, nor those whom a group of the identity provider gives their role. */
export function isOneOfSeveral({ principal, scim = false }: Member, reader: string | undefined): boolean {
  return principal !== reader && !scim;
}

function SeveralMembers({ tenant, selected, chosen, keep }: { tenant: Tenant; selected: Member[]; chosen: ReadonlySet<string>; keep: (ids: string[]) => void }) {
  const change = useChangeMember(tenant);
  const remove = useRemoveMember(tenant);
  return (
    <Bulk
      label="Selected members"
      noun="member"
      selected={selected}
      chosen={chosen}
      keep={keep}
      id={({ member_id = "" }) => member_id}
      name={({ display_name, principal = "" }) => display_name || principal}
      after={() => undefined}
      actions={[
        {
          word: "Change role of",
          confirm: "Change",
          open: selected,
          text: "Open terminals and streams that the role does not allow end within seconds.",
          reason: (role, choose) => <RolesField role={role} choose={choose} />,
          run: (member, role) => change.mutateAsync({ ...member, role: role as MemberRole }),
        },
        {
          word: "Remove",
          danger: true,
          open: selected,
          text: "Open terminals and streams end within seconds. Allocations continue and are billed.",
          run: (member) => remove.mutateAsync(member),
        },
      ]}
    />
  );
}

/** The role that all of them get; none until one is chosen. */
function RolesField({ role, choose }: { role: string; choose: (role: string) => void }) {
  return <SelectField label="Role" value={role} onChange={choose} options={[["", "Choose a role"], ...ROLES.map(([value, word]): [string, string] => [value, word])]} />;
}

export function Row({ member, tenant, own, manages, before }: { member: Member; tenant: Tenant; /** It is the reader. */ own: boolean; manages: boolean; before: ReactNode }) {
  const change = useChangeMember(tenant);
  const remove = useRemoveMember(tenant);
  const name = member.display_name || member.principal || "";
  // what the reader may do, and which projects there are to choose from, is another thing at once
  const leave = async () => {
    await remove.mutateAsync(member);
    if (own) await learnRoles();
  };
  const why = manages ? (member.scim ? GIVEN : undefined) : MANAGED;
  return (
    <tr>
      <td>
        {before && <span className="row-before">{before}</span>}
        <strong>{name}</strong> {own && <small className="muted">you</small>} {member.disabled && <Badge tone="bad">Disabled</Badge>} {member.kind === "service_account" && <Badge tone="idle">Service account</Badge>} {member.scim && <Badge tone="idle">SCIM</Badge>}
        {(member.email || name !== member.principal) && <small className="muted block">{member.email || member.principal}</small>}
        {change.error && <ProblemNote error={change.error} reloaded={change.reset} />}
      </td>
      <td>
        <select className="plain-select" aria-label={`Role of ${name}`} value={member.role} disabled={change.isPending || member.scim || !manages} title={why} onChange={(event) => change.mutate({ ...member, role: event.target.value as MemberRole }, { onSuccess: () => void (own && learnRoles()) })}>
          {ROLES.map(([role, word]) => (
            <option key={role} value={role}>
              {word}
            </option>
          ))}
        </select>
      </td>
      <td className="number optional">
        <Time value={member.create_time} />
      </td>
      <td className="number">
        {!manages && <span className="muted">–</span>}
        {manages && <Confirm
          danger
          trigger={
            <Button small disabled={member.scim} title={why} aria-label={`${own ? "Leave" : "Remove"} ${name}`}>
              {own ? "Leave" : "Remove"}
            </Button>
          }
          title={own ? `Leave the ${tenant.kind}?` : `Remove ${name}?`}
          action={own ? "Leave" : "Remove"}
          run={leave}
        >
          Open terminals and streams end within seconds. Allocations continue and are billed.
        </Confirm>}
      </td>
    </tr>
  );
}

export function Members({ tenant, manages }: { tenant: Tenant; manages: boolean }) {
  const [search, setSearch] = useState("");
  const found = useMembers(tenant, useDeferredValue(search));
  const principal = useSession()?.principal;
  const isAdmin = useMay("manage");
  const { chosen, choose, keep } = useChosen();
  return (
    <>
      {manages && (
        <div className="tab-actions">
          <AddMember tenant={tenant} />
        </div>
      )}
      <div className="filters" role="search" aria-label="Members">
        <SearchBox label="Search by name, principal or email" placeholder="Name, principal or email" value={search} onChange={setSearch} />
      </div>
      <Loaded of={[found]} lines={4} label="Loading members">
        {(members) =>
          members.length > 0 ? (
            <>
              {manages && <SeveralMembers tenant={tenant} selected={members.filter((member) => chosen.has(member.member_id ?? "") && isOneOfSeveral(member, principal))} chosen={chosen} keep={keep} />}
              <TableCard label="Members" columns={["Name", "Role", ["Since", "number optional"], ["Actions", "number"]]} foot={found.more && <ShowMore of={found} noun="member" />}>
                {members.map((member) => (
                  <Row
                    key={member.member_id}
                    member={member}
                    tenant={tenant}
                    own={member.principal === principal}
                    manages={manages}
                    before={manages && isOneOfSeveral(member, principal) && <Chooser name={member.display_name || member.principal} checked={chosen.has(member.member_id ?? "")} choose={(on) => choose(member.member_id ?? "", on)} />}
                  />
                ))}
              </TableCard>
            </>
          ) : search.trim() ? (
            <Empty icon={<Search size={28} />} title="No member matches" action={<Button onClick={() => setSearch("")}>Clear the search</Button>}>
              Search for a part of a name, principal or email address.
            </Empty>
          ) : (
            <Empty icon={<KeyRound size={28} />} title="No members yet">
              {isAdmin ? "Add anybody who is registered. Owners also invite people by email." : manages ? "Add somebody of the organisation, or invite people by email." : "Owners add and invite members."}
            </Empty>
          )
        }
      </Loaded>
    </>
  );
}
