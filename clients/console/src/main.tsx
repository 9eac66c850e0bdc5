/** Starts the console. */
import { StrictMode } from "react";
import { createRoot } from "react-dom/client";
import { App } from "./app";
import { noteFailure } from "./session/failure";
import { completeSignIn } from "./session/lifecycle";
import { adoptSession } from "./session/session";
import { confirmDevice } from "./session/stack";
import { keepFocus } from "./ui/keep-focus";
import "./styles/fonts.css";
import "./styles/base.css";
import "./styles/parts.css";
import "./styles/views.css";
import "./styles/capacity.css";
import "./styles/tools.css";

/** The addresses that an identity provider leads back to; elsewhere a session of another tab. */
async function begin(): Promise<void> {
  if (location.pathname === "/sign-in/callback") return completeSignIn().catch(noteFailure);
  if (location.pathname === "/sign-in/device") return confirmDevice();
  return adoptSession();
}

const root = document.getElementById("root");
if (root) {
  keepFocus(() => document.getElementById("main"));
  void begin().then(() =>
    createRoot(root).render(
      <StrictMode>
        <App />
      </StrictMode>,
    ),
  );
}
