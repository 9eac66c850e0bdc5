/** Which view belongs to which address. Views that need much code are loaded when they are opened. */
import { QueryClient, QueryClientProvider } from "@tanstack/react-query";
import { Component, type ReactNode, Suspense, lazy, useEffect, useMemo } from "react";
import { Link, Redirect, Route, Switch, useLocation } from "wouter";
import { keepInvitation } from "./session/invitation";
import { keepGood, learnRoles, wake } from "./session/lifecycle";
import { may } from "./session/rights";
import { projectOf } from "./session/roles";
import { useSession } from "./session/session";
import { onWake } from "./session/sleep";
import { SignIn } from "./session/sign-in";
import { Empty, Skeleton } from "./ui/basics";
import { ForRole } from "./ui/for-role";
import { ProblemNote } from "./ui/problem";
import { Problem } from "./api/problem";
import { Page, Shell } from "./ui/shell";

const Overview = lazy(() => import("./views/overview/overview"));
const OperatorHome = lazy(() => import("./views/operations/home"));
const AllAllocations = lazy(() => import("./views/operations/allocations"));
const OperatorAllocation = lazy(() => import("./views/operations/allocation"));
const ProjectQuotas = lazy(() => import("./views/operations/quotas"));
const SshKeys = lazy(() => import("./views/keys/keys"));
const ApiKeys = lazy(() => import("./views/accounts/page"));
const OrganisationPage = lazy(() => import("./views/organisation/organisation"));
const ProjectPage = lazy(() => import("./views/project/project"));
const Join = lazy(() => import("./views/project/join"));
const Principals = lazy(() => import("./views/principals/principals"));
const Tenants = lazy(() => import("./views/tenants/tenants"));
const TenantOrganisation = lazy(() => import("./views/tenants/organisation"));
const TenantProjectPage = lazy(() => import("./views/tenants/project"));
const TerminalSessions = lazy(() => import("./views/operations/terminals"));
const AuditTrail = lazy(() => import("./views/audit/audit"));
const Catalog = lazy(() => import("./views/catalog/catalog"));
const AllocationList = lazy(() => import("./views/allocations/list"));
const Granted = lazy(() => import("./views/allocations/granted"));
const AllocationView = lazy(() => import("./views/allocations/detail"));
const Launch = lazy(() => import("./views/launch/launch"));
const ActivityPage = lazy(() => import("./views/activity/activity"));
const HealthEvents = lazy(() => import("./views/health/health"));
const Usage = lazy(() => import("./views/usage/usage"));
const ReservationList = lazy(() => import("./views/reservations/list"));
const Reserve = lazy(() => import("./views/reservations/create"));
const ReservationView = lazy(() => import("./views/reservations/detail"));
const Capacity = lazy(() => import("./views/capacity/capacity"));
const NodeList = lazy(() => import("./views/nodes/page"));
const RolloutList = lazy(() => import("./views/rollouts/list"));
const RolloutView = lazy(() => import("./views/rollouts/detail"));
const NodeView = lazy(() => import("./views/nodes/node"));

keepInvitation();

function newQueries(): QueryClient {
  return new QueryClient({
    defaultOptions: {
      queries: {
        // the SDK has tried it again where the server asked for it; a proxy in between does not say so
        retry: (failures, problem) => failures < 2 && problem instanceof Problem && problem.transient && ![0, 429, 503].includes(problem.status),
        staleTime: 500,
      },
    },
  });
}

/** A fault of the console itself must not leave an empty page. */
class Boundary extends Component<{ children: ReactNode }, { error: unknown }> {
  override state = { error: undefined as unknown };
  static getDerivedStateFromError(error: unknown) {
    return { error };
  }
  override render() {
    if (this.state.error === undefined) return this.props.children;
    return (
      <Page title="This view failed">
        <ProblemNote error={this.state.error} retry={() => location.reload()} />
      </Page>
    );
  }
}

/** Where people begin: an operator without a project at the platform, everybody else at what is theirs. */
function Home() {
  const session = useSession();
  return <Redirect to={session && may(session.platformRole, "read") && session.projects.length === 0 ? "/admin" : "/overview"} replace />;
}

function NotFound() {
  return (
    <Page title="Not found">
      <Empty title="This page does not exist" action={<Link href="/">Go to the home page</Link>} />
    </Page>
  );
}

function Views() {
  const [location] = useLocation();
  return (
    <Shell>
      <Boundary key={location}>
        <Suspense fallback={<div className="page"><Skeleton lines={6} label="Loading the view" /></div>}>
          <Switch>
            <Route path="/"><Home /></Route>
            <Route path="/overview"><ForRole title="Overview" right="billing"><Overview /></ForRole></Route>
            <Route path="/allocations"><ForRole title="Allocations" right="read" otherwise={<Granted />}><AllocationList /></ForRole></Route>
            <Route path="/allocations/:id">{({ id }) => <AllocationView key={id} id={id} />}</Route>
            <Route path="/launch"><ForRole title="Launch" right="write"><Launch /></ForRole></Route>
            <Route path="/reservations"><ForRole title="Reservations" right="read"><ReservationList side="project" /></ForRole></Route>
            <Route path="/reservations/new"><ForRole title="Reserve GPUs" right="write"><Reserve side="project" /></ForRole></Route>
            <Route path="/reservations/:id">{({ id }) => <ReservationView key={id} side="project" id={id} />}</Route>
            <Route path="/activity"><ForRole title="Activity" right="read"><ActivityPage /></ForRole></Route>
            <Route path="/health-events"><ForRole title="Health events" right="read"><HealthEvents /></ForRole></Route>
            <Route path="/usage"><ForRole title="Usage" right="billing"><Usage /></ForRole></Route>
            <Route path="/keys" component={SshKeys} />
            <Route path="/api-keys"><ForRole title="Service accounts" right="read" platform="read"><ApiKeys /></ForRole></Route>
            <Route path="/project" component={ProjectPage} />
            <Route path="/organisation" component={OrganisationPage} />
            <Route path="/join" component={Join} />
            <Route path="/admin" component={OperatorHome} />
            <Route path="/admin/allocations" component={AllAllocations} />
            <Route path="/admin/allocations/:id">{({ id }) => <OperatorAllocation key={id} id={id} />}</Route>
            <Route path="/admin/catalog" component={Catalog} />
            <Route path="/admin/quotas" component={ProjectQuotas} />
            <Route path="/admin/terminals" component={TerminalSessions} />
            <Route path="/admin/audit" component={AuditTrail} />
            <Route path="/admin/organisations" component={Tenants} />
            <Route path="/admin/organisations/:id">{({ id }) => <TenantOrganisation key={id} id={id} />}</Route>
            <Route path="/admin/projects/:id">{({ id }) => <TenantProjectPage key={id} id={id} />}</Route>
            <Route path="/admin/principals" component={Principals} />
            <Route path="/admin/nodes" component={NodeList} />
            <Route path="/admin/nodes/:id">{({ id }) => <NodeView key={id} id={id} />}</Route>
            <Route path="/admin/agent-rollouts" component={RolloutList} />
            <Route path="/admin/agent-rollouts/:id">{({ id }) => <RolloutView key={id} id={id} />}</Route>
            <Route path="/admin/capacity" component={Capacity} />
            <Route path="/admin/reservations"><ReservationList side="operator" /></Route>
            <Route path="/admin/reservations/new"><Reserve side="operator" /></Route>
            <Route path="/admin/reservations/:id">{({ id }) => <ReservationView key={id} side="operator" id={id} />}</Route>
            <Route component={NotFound} />
          </Switch>
        </Suspense>
      </Boundary>
    </Shell>
  );
}

export function App() {
  const session = useSession();
  // that the only project is one of several now changes nothing of what is looked at
  const who = session ? `${session.principal} ${projectOf(session)?.id ?? ""}` : "";
  // nothing that one identity has seen is shown to the next
  const queries = useMemo(newQueries, [who]);
  useEffect(() => (session ? keepGood(session) : undefined), [session]);
  // what is shown is as old as the sleep
  useEffect(() => onWake(() => void wake().then(() => queries.invalidateQueries())), [queries]);
  // roles change while somebody is signed in: asked when the page is loaded, and with each new token
  const token = session?.token;
  useEffect(() => {
    if (token) void learnRoles();
  }, [token]);
  return <QueryClientProvider client={queries}>{session ? <Views key={who} /> : <SignIn />}</QueryClientProvider>;
}
