/** Groups of the organisation's identity provider (SCIM), and the roles in projects that owners map them on. */
import { useState } from "react";
import { type ScimGroup, useMapGroup, useProjectsOf, useScimGroups, useUnmapGroup } from "../../api/scim";
import type { MemberRole } from "../../api/tenancy";
import { Button, Empty } from "../../ui/basics";
import { Confirm } from "../../ui/dialog";
import { KeyRound } from "../../ui/icons";
import { Loaded } from "../../ui/loaded";
import { ShowMore } from "../../ui/show-more";
import { TableCard } from "../../ui/table";
import { SelectField } from "../catalog/parts";
import { RoleField, roleWord } from "../project/parts";

function MapGroup({ organisation, group }: { organisation: string; group: ScimGroup }) {
  const map = useMapGroup(organisation);
  const mapped = new Set(group.mappings?.map(({ project_id }) => project_id));
  const free = (useProjectsOf(organisation).data ?? []).filter(({ id, state }) => state !== "closed" && !mapped.has(id));
  const [wanted, setWanted] = useState("");
  const [role, setRole] = useState<MemberRole>("member");
  const project = free.some(({ id }) => id === wanted) ? wanted : (free[0]?.id ?? "");
  return (
    <Confirm
      trigger={
        <Button small disabled={free.length === 0} title={free.length === 0 ? "The group has a role in every project." : undefined} aria-label={`Map ${group.display_name}`}>
          Map
        </Button>
      }
      title={`Map ${group.display_name} to a project`}
      action="Map"
      ready={project !== ""}
      run={() => map.mutateAsync({ group_id: group.id ?? "", target_project_id: project, role })}
    >
      <p>All members of the group get the role immediately; people who join the group later get it then. Roles assigned directly are kept.</p>
      <SelectField label="Project" value={project} onChange={setWanted} options={free.map(({ id = "", slug = "" }): [string, string] => [id, slug])} />
      <RoleField value={role} onChange={setRole} />
    </Confirm>
  );
}

function Row({ organisation, group, owner }: { organisation: string; group: ScimGroup; owner: boolean }) {
  const unmap = useUnmapGroup(organisation);
  const { mappings = [] } = group;
  return (
    <tr>
      <td>
        <strong>{group.display_name}</strong>
      </td>
      <td className="number">{group.member_count ?? 0}</td>
      <td>
        {mappings.length === 0 && <span className="muted">No role</span>}
        {mappings.map((mapping) => (
          <div key={mapping.id}>
            {roleWord(mapping.role)} of {mapping.project}{" "}
            {owner && (
              <Confirm
                danger
                trigger={
                  <Button small aria-label={`Remove ${group.display_name} from ${mapping.project}`}>
                    Remove
                  </Button>
                }
                title={`Remove ${group.display_name} from ${mapping.project}?`}
                action="Remove"
                run={() => unmap.mutateAsync(mapping)}
              >
                Open terminals and streams of people who have no other role there end within seconds.
              </Confirm>
            )}
          </div>
        ))}
      </td>
      <td className="number">{owner && <MapGroup organisation={organisation} group={group} />}</td>
    </tr>
  );
}

export function Groups({ organisation, owner }: { organisation: string; owner: boolean }) {
  const groups = useScimGroups(organisation);
  return (
    <Loaded of={[groups]} lines={4} label="Loading groups">
      {(all) =>
        all.length === 0 ? (
          <Empty icon={<KeyRound size={28} />} title="No groups">
            The identity provider of the organisation has sent no groups. The tab SCIM has the address and the keys for the provider.
          </Empty>
        ) : (
          <TableCard label="Groups" columns={["Group", ["Members", "number"], "Roles", ["Actions", "number"]]} foot={groups.more && <ShowMore of={groups} noun="group" />}>
            {all.map((group) => (
              <Row key={group.id} organisation={organisation} group={group} owner={owner} />
            ))}
          </TableCard>
        )
      }
    </Loaded>
  );
}
