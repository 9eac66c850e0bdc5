/** Members who have a grant for single allocations, whatever their role. */
import { useDeferredValue, useId, useState } from "react";
import { type Grant, type Permission, PERMISSIONS, useEveryMember, useGrant, useGrants, useLiveAllocations, useTakeBack } from "../../api/grants";
import type { Allocation } from "../../api/types";
import { nameOf } from "../../lib/allocation-name";
import { Button, Empty, Planned } from "../../ui/basics";
import { Confirm } from "../../ui/dialog";
import { KeyRound, Plus, Search } from "../../ui/icons";
import { Loaded } from "../../ui/loaded";
import { ShowMore } from "../../ui/show-more";
import { TableCard } from "../../ui/table";
import { Field, SearchBox } from "../../ui/form";
import { SelectField } from "../catalog/parts";

export function permissionWord(permission: string | undefined): string {
  return PERMISSIONS.find(([value]) => value === permission)?.[1] ?? "–";
}

/** The first of what can be chosen until something is. */
export function chosen(options: [string, string][], choice: string): string {
  return options.some(([value]) => value === choice) ? choice : (options[0]?.[0] ?? "");
}

/** By name: who has a role by the organisation is no member of the project itself, and cannot be chosen from a list. */
function PrincipalField({ value, onChange, members }: { value: string; onChange: (value: string) => void; members: string[] }) {
  const list = useId();
  return (
    <Field label="Principal" hint="A member of the project or of its organisation, for example user:bob.">
      {({ id, describedBy }) => (
        <>
          <input id={id} aria-describedby={describedBy} list={list} value={value} spellCheck={false} autoComplete="off" onChange={(event) => onChange(event.target.value)} />
          <datalist id={list}>
            {members.map((name) => (
              <option key={name} value={name} />
            ))}
          </datalist>
        </>
      )}
    </Field>
  );
}

function GrantAccess({ project, allocations, members }: { project: string; allocations: [string, string][]; members: string[] }) {
  const grant = useGrant(project);
  const [allocation, setAllocation] = useState("");
  const [principal, setPrincipal] = useState("");
  const [permission, setPermission] = useState<Permission>("terminal");
  const body = { allocation_id: chosen(allocations, allocation), principal: principal.trim(), permission };
  return (
    <Confirm
      trigger={
        <Button kind="primary">
          <Plus size={15} aria-hidden="true" /> Grant access
        </Button>
      }
      title="Grant a member access to one allocation"
      action="Grant access"
      ready={body.allocation_id !== "" && body.principal !== ""}
      run={() => grant.mutateAsync(body)}
    >
      <p>The grant covers only this allocation and ends after seven days.</p>
      <SelectField label="Allocation" value={body.allocation_id} onChange={setAllocation} options={allocations} />
      <PrincipalField value={principal} onChange={setPrincipal} members={members} />
      <SelectField label="Permission" value={permission} onChange={setPermission} options={PERMISSIONS} />
    </Confirm>
  );
}

function Row({ grant, name, project, manages }: { grant: Grant; name: string; project: string; manages: boolean }) {
  const takeBack = useTakeBack(project);
  return (
    <tr>
      <td>
        <strong>{name}</strong>
        <small className="muted block">by {grant.creator}</small>
      </td>
      <td>{grant.principal}</td>
      <td>{permissionWord(grant.permission)}</td>
      <td className="number optional">
        <Planned value={grant.expire_time} short />
      </td>
      <td className="number">
        {!manages && <span className="muted">–</span>}
        {manages && <Confirm
          danger
          trigger={
            <Button small aria-label={`Delete the grant of ${grant.principal} for ${name}`}>
              Delete
            </Button>
          }
          title={`Delete the grant of ${grant.principal} for ${name}?`}
          action="Delete"
          run={() => takeBack.mutateAsync(grant)}
        >
          Terminals and serial logs opened with this grant end within seconds.
        </Confirm>}
      </td>
    </tr>
  );
}

const namesOf = (allocations: Allocation[]) => allocations.map((one): [string, string] => [one.id ?? "", nameOf(one)]);

export function Grants({ project, manages }: { project: string; manages: boolean }) {
  const [search, setSearch] = useState("");
  const asked = useDeferredValue(search);
  const found = useGrants(project, asked);
  const allocations = useLiveAllocations(project);
  const members = useEveryMember(project);
  // what was found may be of an older search than the one that is typed
  const none = found.data?.length === 0 && search.trim() === "" && asked.trim() === "";
  return (
    <>
      {manages && allocations.data && members.data && (
        <div className="tab-actions">
          <GrantAccess project={project} allocations={namesOf(allocations.data)} members={members.data.map(({ principal = "" }) => principal)} />
        </div>
      )}
      {!none && (
        <div className="filters" role="search" aria-label="Access to allocations">
          <SearchBox label="Search by member or who granted" placeholder="Member, or who granted" value={search} onChange={setSearch} />
        </div>
      )}
      <Loaded of={[found, allocations, members]} lines={4} label="Loading access to allocations">
        {(grants, allocations, _) => {
          const named = (id = "") => namesOf(allocations).find(([of]) => of === id)?.[1] ?? id;
          return (
            <>
              {grants.length === 0 && !none ? (
                <Empty icon={<Search size={28} />} title="No grant matches" action={<Button onClick={() => setSearch("")}>Clear the search</Button>}>
                  Search for a part of a principal.
                </Empty>
              ) : grants.length === 0 ? (
                <Empty icon={<KeyRound size={28} />} title="No grants">
                  {manages ? "Grant a viewer access to the terminal or the serial log of one allocation, and of no other." : "Owners grant a member access to the terminal or the serial log of one allocation."}
                </Empty>
              ) : (
                <TableCard label="Access to allocations" columns={["Allocation", "Member", "Permission", ["Until", "number optional"], ["Actions", "number"]]} foot={found.more && <ShowMore of={found} noun="grant" />}>
                  {grants.map((grant) => (
                    <Row key={grant.id} grant={grant} name={named(grant.allocation_id)} project={project} manages={manages} />
                  ))}
                </TableCard>
              )}
            </>
          );
        }}
      </Loaded>
    </>
  );
}
