import react from "@vitejs/plugin-react";
import { defineConfig } from "vite";
import { precompress } from "./build/precompress";

export default defineConfig({
  plugins: [react(), precompress()],
  // its sources, so that it need not be built before
  resolve: { alias: { "@gpuaas/sdk": new URL("../typescript/src/index.ts", import.meta.url).pathname } },
  build: {
    target: "es2022",
    // fonts and images stay files: the page's policy allows no data: fonts
    assetsInlineLimit: 0,
    // the polyfill would be an inline script
    modulePreload: { polyfill: false },
    rollupOptions: {
      output: {
        manualChunks: {
          react: ["react", "react-dom", "react-dom/client", "wouter", "@tanstack/react-query"],
        },
      },
    },
  },
  server: {
    // `npm run dev` against a running gateway
    proxy: Object.fromEntries(
      ["/api", "/dev", "/reference", "/.well-known"].map((path) => [path, { target: "http://127.0.0.1:7080", ws: true, changeOrigin: true }]),
    ),
  },
});
