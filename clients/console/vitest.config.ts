import { readdirSync, readFileSync } from "node:fs";
import { mergeConfig } from "vite";
import { defineConfig } from "vitest/config";
import base from "./vite.config";

const files = readdirSync("src", { recursive: true, encoding: "utf8" })
  .filter((file) => /\.test\.tsx?$/.test(file))
  .map((file) => `src/${file}`);
// A test that replaces a module or something global, or signs somebody in, has its modules for itself. All others share theirs:
// to load them for each file takes several times as long as the tests.
const replaces = (file: string) => /\bvi\b|globalThis|window\.|localStorage|sessionStorage|signInAs|beginSession/.test(readFileSync(file, "utf8"));
const isolated = files.filter(replaces);
const shared = files.filter((file) => !isolated.includes(file));

export default mergeConfig(
  base,
  defineConfig({
    test: {
      projects: [
        { extends: true, test: { name: "isolated", include: isolated } },
        { extends: true, test: { name: "shared", include: shared, poolOptions: { forks: { isolate: false, singleFork: true } } } },
      ],
    },
  }),
);
