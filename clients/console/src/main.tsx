/** Starts the console. */
import { StrictMode } from "react";
import { createRoot } from "react-dom/client";
import { App } from "./app";
import { adoptSession } from "./session/session";
import { keepFocus } from "./ui/keep-focus";
import "./styles/fonts.css";
import "./styles/base.css";
import "./styles/parts.css";
import "./styles/views.css";
import "./styles/capacity.css";

const root = document.getElementById("root");
if (root) {
  keepFocus(() => document.getElementById("main"));
  void adoptSession().then(() =>
    createRoot(root).render(
      <StrictMode>
        <App />
      </StrictMode>,
    ),
  );
}
