/** API keys of the current project's service accounts. */
import { useProjectId } from "../../api/tenancy";
import { NoProject } from "../../ui/no-project";
import { Page } from "../../ui/shell";
import { ServiceAccounts } from "./accounts";

export default function ApiKeys() {
  const project = useProjectId();
  return (
    <Page title="Service accounts">
      {project ? (
        <ServiceAccounts project={project} />
      ) : (
        <NoProject />
      )}
    </Page>
  );
}
