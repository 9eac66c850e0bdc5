/** The frame around every view: navigation and the signed-in user. */
import { type ReactNode, useEffect, useRef } from "react";
import { Link, useLocation } from "wouter";
import { projectNames } from "../lib/project-name";
import { signOut as endSignIn } from "../session/lifecycle";
import { ROLE_WORDS, may } from "../session/rights";
import { projectOf } from "../session/roles";
import { chooseProject, useSession } from "../session/session";
import { ArrowLeft, BookOpen, LogOut, Monitor, Moon, Sun } from "./icons";
import { useInSight } from "./in-sight";
import { PLATFORM, type Place, isAt, placesFor } from "./nav";
import { PaletteButton } from "./palette-button";
import { type Theme, chooseTheme, useTheme } from "./theme";

function NavLink({ place }: { place: Place }) {
  const [location] = useLocation();
  const { to, title, icon: Icon } = place;
  return (
    <Link href={to} className="nav-link" aria-current={isAt(location, place) ? "page" : undefined}>
      <Icon size={17} aria-hidden="true" />
      {title}
    </Link>
  );
}

const THEMES: [Theme, string, ReactNode][] = [
  ["light", "Light", <Sun size={15} key="l" />],
  ["system", "System", <Monitor size={15} key="s" />],
  ["dark", "Dark", <Moon size={15} key="d" />],
];

export function ThemeSwitch() {
  const theme = useTheme();
  return (
    <div className="theme-switch" role="radiogroup" aria-label="Theme">
      {THEMES.map(([value, label, icon]) => (
        <label key={value} title={label}>
          <input type="radio" name="theme" checked={theme === value} onChange={() => chooseTheme(value)} aria-label={label} />
          {icon}
        </label>
      ))}
    </div>
  );
}

export function Logo() {
  return (
    <span className="logo">
      <svg viewBox="0 0 32 32" width="26" height="26" aria-hidden="true">
        <rect width="32" height="32" rx="8" fill="var(--accent)" />
        <g fill="var(--on-accent)">
          <rect x="7" y="7" width="8" height="8" rx="2" />
          <rect x="17" y="7" width="8" height="8" rx="2" opacity=".55" />
          <rect x="7" y="17" width="8" height="8" rx="2" opacity=".55" />
          <rect x="17" y="17" width="8" height="8" rx="2" opacity=".3" />
        </g>
      </svg>
      GPUaaS
    </span>
  );
}

export function Shell({ children }: { children: ReactNode }) {
  const session = useSession();
  const [location, navigate] = useLocation();
  const menu = useRef<HTMLElement>(null);
  useInSight(menu, "[aria-current=page]", session ? location : "");
  if (!session) return null;
  const signOut = () => {
    // after signing out the next user starts at the home page; after an expiry the address stays
    navigate("/");
    void endSignIn();
  };
  const project = projectOf(session);
  return (
    <div className="shell">
      <a className="skip" href="#main">
        Skip to content
      </a>
      <aside className="sidebar" aria-label="Console">
        <Link href="/" className="home" aria-label="GPUaaS, home">
          <Logo />
        </Link>
        <PaletteButton />
        <nav aria-label="Main" ref={menu}>
          {placesFor(project, session.platformRole).map((place) => (
            <NavLink key={place.to} place={place} />
          ))}
          {may(session.platformRole, "read") && (
            <>
              <p className="nav-title">Platform</p>
              {PLATFORM.map((place) => (
                <NavLink key={place.to} place={place} />
              ))}
            </>
          )}
        </nav>
        <div className="who">
          {session.projects.length > 1 ? (
            <label className="project-choice">
              <span>Project</span>
              <select value={session.project} onChange={(event) => chooseProject(event.target.value)}>
                {[...projectNames(session.projects)].map(([id, name]) => (
                  <option key={id} value={id}>
                    {name}
                  </option>
                ))}
              </select>
            </label>
          ) : (
            project && <span className="who-project">Project {project.slug}</span>
          )}
          <div className="who-line">
            <span className="avatar" aria-hidden="true">
              {session.principal.replace(/^.*:/, "").slice(0, 1).toUpperCase() || "?"}
            </span>
            <span className="who-name" title={session.principal}>
              {session.principal || "token"}
              {may(session.platformRole, "read") && <small>{ROLE_WORDS[session.platformRole ?? "unspecified"]}</small>}
            </span>
          </div>
          <div className="who-tools">
            <ThemeSwitch />
            <a className="button quiet small icon-only" href="/reference" aria-label="API reference" title="API reference">
              <BookOpen size={16} />
            </a>
            <button type="button" className="button quiet small icon-only" onClick={signOut} aria-label="Sign out" title="Sign out">
              <LogOut size={16} />
            </button>
          </div>
        </div>
      </aside>
      <main id="main" tabIndex={-1}>
        {children}
      </main>
    </div>
  );
}

/** A link back, above the title. */
export function Back({ to, children }: { to: string; children: ReactNode }) {
  return (
    <Link href={to}>
      <ArrowLeft size={15} aria-hidden="true" /> {children}
    </Link>
  );
}

/** A title that is more than text comes with its text, for the browser's tab. */
type Title = { title: string; name?: undefined } | { title: ReactNode; name: string };

export function Page({ title, name, actions, crumb, children }: Title & { actions?: ReactNode; crumb?: ReactNode; children: ReactNode }) {
  const text = name ?? title;
  useEffect(() => {
    document.title = `${text} · GPUaaS`;
  }, [text]);
  return (
    <div className="page">
      {crumb && <div className="crumb">{crumb}</div>}
      <header className="page-head">
        <h1>{title}</h1>
        {actions && <div className="page-actions">{actions}</div>}
      </header>
      {children}
    </div>
  );
}
