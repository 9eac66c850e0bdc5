/** Starts the console. */
import { StrictMode } from "react";
import { createRoot } from "react-dom/client";
import { App } from "./app";
import "./styles/fonts.css";
import "./styles/base.css";
import "./styles/parts.css";
import "./styles/views.css";
import "./styles/capacity.css";

const root = document.getElementById("root");
if (root) {
  createRoot(root).render(
    <StrictMode>
      <App />
    </StrictMode>,
  );
}
