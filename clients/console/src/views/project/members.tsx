/** Members of a project or an organisation, with their roles. */
import { useDeferredValue, useState } from "react";
import { type Member, type MemberRole, ROLES, type Tenant, useAddMember, useChangeMember, useMembers, useRemoveMember } from "../../api/tenancy";
import { useSession } from "../../session/session";
import { Badge, Button, Empty, Time } from "../../ui/basics";
import { Confirm } from "../../ui/dialog";
import { SearchBox } from "../../ui/form";
import { KeyRound, Plus, Search } from "../../ui/icons";
import { Loaded } from "../../ui/loaded";
import { ProblemNote } from "../../ui/problem";
import { ShowMore } from "../../ui/show-more";
import { TableCard } from "../../ui/table";
import { TextField } from "../catalog/parts";
import { RoleField } from "./parts";

/** Why no hand changes a membership. */
const MANAGED = "Only owners change roles and members.";
const GIVEN = "A group of the organisation's identity provider gives this role. Change the group there, or what it is mapped on.";

function AddMember({ tenant }: { tenant: Tenant }) {
  const add = useAddMember(tenant);
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
      <p>For somebody who is in the organisation. Invite everybody else by email.</p>
      <TextField label="Principal" mono value={principal} onChange={setPrincipal} placeholder="user:alice" />
      <RoleField value={role} onChange={setRole} />
    </Confirm>
  );
}

function Row({ member, tenant, own, manages }: { member: Member; tenant: Tenant; /** It is the reader. */ own: boolean; manages: boolean }) {
  const change = useChangeMember(tenant);
  const remove = useRemoveMember(tenant);
  const name = member.display_name || member.principal || "";
  const why = manages ? (member.scim ? GIVEN : undefined) : MANAGED;
  return (
    <tr>
      <td>
        <strong>{name}</strong> {own && <small className="muted">you</small>} {member.disabled && <Badge tone="bad">Disabled</Badge>} {member.kind === "service_account" && <Badge tone="idle">Service account</Badge>} {member.scim && <Badge tone="idle">SCIM</Badge>}
        <small className="muted block">{member.email || member.principal}</small>
        {change.error && <ProblemNote error={change.error} reloaded={change.reset} />}
      </td>
      <td>
        <select className="plain-select" aria-label={`Role of ${name}`} value={member.role} disabled={change.isPending || member.scim || !manages} title={why} onChange={(event) => change.mutate({ ...member, role: event.target.value as MemberRole })}>
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
          run={() => remove.mutateAsync(member)}
        >
          Open terminals and streams end within seconds. What was launched stays and is billed.
        </Confirm>}
      </td>
    </tr>
  );
}

export function Members({ tenant, manages }: { tenant: Tenant; manages: boolean }) {
  const [search, setSearch] = useState("");
  const found = useMembers(tenant, useDeferredValue(search));
  const principal = useSession()?.principal;
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
            <TableCard label="Members" columns={["Name", "Role", ["Since", "number optional"], ["Actions", "number"]]} foot={found.more && <ShowMore of={found} noun="member" />}>
              {members.map((member) => (
                <Row key={member.member_id} member={member} tenant={tenant} own={member.principal === principal} manages={manages} />
              ))}
            </TableCard>
          ) : search.trim() ? (
            <Empty icon={<Search size={28} />} title="No member matches" action={<Button onClick={() => setSearch("")}>Clear the search</Button>}>
              Search for a part of a name, principal or email address.
            </Empty>
          ) : (
            <Empty icon={<KeyRound size={28} />} title="No members yet">
              {manages ? "Add a registered principal, or invite somebody by email." : "Owners add and invite members."}
            </Empty>
          )
        }
      </Loaded>
    </>
  );
}
