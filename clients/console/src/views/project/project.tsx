/** The current project: who is in it, who is invited, who has a grant for a single allocation, where its events go, and its state. */
import { Tabs } from "radix-ui";
import { useProjectId } from "../../api/tenancy";
import { projectNames } from "../../lib/project-name";
import { useProjectMay } from "../../session/roles";
import { useSession } from "../../session/session";
import { NoProject } from "../../ui/no-project";
import { Page } from "../../ui/shell";
import { TabList } from "../../ui/tab-list";
import { useTab } from "../../ui/use-query-state";
import { Grants } from "./grants";
import { Invitations } from "./invitations";
import { Members } from "./members";
import { Settings } from "./settings";
import { Webhooks } from "./webhooks";

const TABS = ["members", "invitations", "access", "webhooks", "settings"];
/** Billing sees who is in the project and what it is. */
const OF_BILLING = ["members", "settings"];

export default function ProjectPage() {
  const mayRead = useProjectMay("read", "read");
  const [tab, setTab] = useTab(mayRead ? TABS : OF_BILLING);
  const manages = useProjectMay("manage", "manage");
  const id = useProjectId();
  const name = projectNames(useSession()?.projects ?? []).get(id);
  if (!id) {
    return (
      <Page title="Project">
        <NoProject />
      </Page>
    );
  }
  const tenant = { kind: "project", id } as const;
  return (
    <Page title={name ? `Project ${name}` : "Project"}>
      <Tabs.Root value={tab} onValueChange={setTab} className="tabs">
        <TabList label="Project views" chosen={tab}>
          <Tabs.Trigger value="members">Members</Tabs.Trigger>
          {mayRead && <Tabs.Trigger value="invitations">Invitations</Tabs.Trigger>}
          {mayRead && <Tabs.Trigger value="access">Grants</Tabs.Trigger>}
          {mayRead && <Tabs.Trigger value="webhooks">Webhooks</Tabs.Trigger>}
          <Tabs.Trigger value="settings">Settings</Tabs.Trigger>
        </TabList>
        <Tabs.Content value="members">
          <Members tenant={tenant} manages={manages} />
        </Tabs.Content>
        <Tabs.Content value="invitations">
          <Invitations tenant={tenant} manages={manages} />
        </Tabs.Content>
        <Tabs.Content value="access">
          <Grants project={id} manages={manages} />
        </Tabs.Content>
        <Tabs.Content value="webhooks">
          <Webhooks tenant={tenant} manages={manages} />
        </Tabs.Content>
        <Tabs.Content value="settings">
          <Settings manages={manages} />
        </Tabs.Content>
      </Tabs.Root>
    </Page>
  );
}
