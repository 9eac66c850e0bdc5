/** An organisation of the caller: its members, who have their role in all of its projects, invitations, and its name. */
import { Tabs } from "radix-ui";
import { useState } from "react";
import { type Organisation, type Tenant, useOwnOrganisations, useRenameOrganisation } from "../../api/tenancy";
import { useMay } from "../../session/rights";
import { Button, Card, CopyButton, Empty, Facts, Time } from "../../ui/basics";
import { Confirm } from "../../ui/dialog";
import { Select } from "../../ui/form";
import { Building2 } from "../../ui/icons";
import { Loaded } from "../../ui/loaded";
import { Page } from "../../ui/shell";
import { TabList } from "../../ui/tab-list";
import { useAsked } from "../../ui/use-asked";
import { useQueryState, useTab } from "../../ui/use-query-state";
import { TextField } from "../catalog/parts";
import { Invitations } from "../project/invitations";
import { Members } from "../project/members";
import { TenantBadge, roleWord } from "../project/parts";
import { Webhooks } from "../project/webhooks";
import { Groups } from "./groups";
import { GuardrailsCard } from "./guardrails";
import { Projects } from "./projects";
import { chosenOf, tabsOf } from "./rules";
import { ScimCard, ScimKeys } from "./scim";

export function Rename({ organisation }: { organisation: Organisation }) {
  const rename = useRenameOrganisation();
  const [asked, askAnew] = useAsked(organisation);
  const [typed, setTyped] = useState<string>();
  const name = typed ?? asked.display_name ?? "";
  const reset = () => {
    askAnew();
    setTyped(undefined);
  };
  return (
    <Confirm trigger={<Button small>Rename</Button>} title="Rename the organisation" action="Rename" ready={name.trim() !== ""} changed={asked.etag !== organisation.etag} reset={reset} run={() => rename.mutateAsync({ ...asked, display_name: name.trim() })}>
      <p>The slug does not change.</p>
      <TextField label="Display name" value={name} onChange={setTyped} />
    </Confirm>
  );
}

function Settings({ organisation, owner }: { organisation: Organisation; owner: boolean }) {
  const { id = "", slug, display_name, state, state_reason, role, create_time } = organisation;
  return (
    <Card title={display_name || slug} aside={owner && <Rename organisation={organisation} />}>
      <Facts
        rows={[
          ["State", <TenantBadge state={state} />],
          ...(state_reason ? ([["Reason", state_reason]] as [string, string][]) : []),
          ["Slug", <code>{slug}</code>],
          ["Your role", roleWord(role)],
          ["Created", <Time value={create_time} />],
          ["ID", <span className="id-line"><code>{id}</code><CopyButton text={id} label="Copy id" /></span>],
        ]}
      />
    </Card>
  );
}

function Views({ organisation }: { organisation: Organisation }) {
  const tenant: Tenant = { kind: "organisation", id: organisation.id ?? "" };
  const manages = useMay("manage");
  const owner = organisation.role === "owner" || manages;
  const tabs = tabsOf(organisation, owner);
  const [tab, setTab] = useTab(tabs);
  return (
    <Tabs.Root value={tab} onValueChange={setTab} className="tabs">
      <TabList label="Organisation views" chosen={tab}>
        <Tabs.Trigger value="members">Members</Tabs.Trigger>
        {owner && <Tabs.Trigger value="invitations">Invitations</Tabs.Trigger>}
        <Tabs.Trigger value="projects">Projects</Tabs.Trigger>
        {tabs.includes("groups") && <Tabs.Trigger value="groups">Groups</Tabs.Trigger>}
        {tabs.includes("scim") && <Tabs.Trigger value="scim">SCIM</Tabs.Trigger>}
        {owner && <Tabs.Trigger value="webhooks">Webhooks</Tabs.Trigger>}
        <Tabs.Trigger value="settings">Settings</Tabs.Trigger>
      </TabList>
      <Tabs.Content value="members">
        <p className="muted">Members have their role in all projects of the organisation.</p>
        <Members tenant={tenant} manages={owner} />
      </Tabs.Content>
      {owner && (
        <Tabs.Content value="invitations">
          <Invitations tenant={tenant} manages={owner} />
        </Tabs.Content>
      )}
      <Tabs.Content value="projects">
        <Projects organisation={organisation} owner={owner} />
      </Tabs.Content>
      {owner && (
        <Tabs.Content value="webhooks">
          <p className="muted">A webhook of the organisation gets the events of all of its projects.</p>
          <Webhooks tenant={tenant} manages={owner} />
        </Tabs.Content>
      )}
      <Tabs.Content value="groups">
        <Groups organisation={organisation.id ?? ""} owner={owner} />
      </Tabs.Content>
      <Tabs.Content value="scim">
        <ScimCard organisation={organisation.id ?? ""} name={organisation.slug} />
        {organisation.role !== "billing" && <ScimKeys organisation={organisation.id ?? ""} owner={owner} />}
      </Tabs.Content>
      <Tabs.Content value="settings">
        <Settings organisation={organisation} owner={owner} />
        <GuardrailsCard organisation={organisation.id ?? ""} owner={owner} />
      </Tabs.Content>
    </Tabs.Root>
  );
}

export default function OrganisationPage() {
  const [wanted, setWanted] = useQueryState("organisation");
  return (
    <Page title="Organisation">
      <Loaded of={[useOwnOrganisations()]} lines={5} label="Loading your organisations">
        {(all) => {
          const { members, chosen } = chosenOf(all, wanted);
          if (!chosen) {
            return (
              <Empty icon={<Building2 size={28} />} title="You are a member of no organisation">
                An organisation appears here once an owner has added or invited you. Your membership in a project is under Project.
              </Empty>
            );
          }
          return (
            <>
              {members.length > 1 && (
                <div className="filters">
                  <Select label="Organisation" value={chosen.id ?? ""} onChoose={setWanted} options={members.map(({ id = "", slug = "", display_name }) => ({ value: id, label: display_name || slug }))} />
                </div>
              )}
              <Views key={chosen.id} organisation={chosen} />
            </>
          );
        }}
      </Loaded>
    </Page>
  );
}
