/** API keys of the current project's service accounts. */
import { useProjectId } from "../../api/tenancy";
import { Empty } from "../../ui/basics";
import { Bot } from "../../ui/icons";
import { Page } from "../../ui/shell";
import { ServiceAccounts } from "./accounts";

export default function ApiKeys() {
  const project = useProjectId();
  return (
    <Page title="API keys">
      {project ? (
        <ServiceAccounts project={project} />
      ) : (
        <Empty icon={<Bot size={28} />} title="You belong to no project">
          Ask an owner of a project for an invitation, and open the link that you get.
        </Empty>
      )}
    </Page>
  );
}
