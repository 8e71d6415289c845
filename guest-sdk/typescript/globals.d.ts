// Globals of scripts in addition to the standard built-in objects, for a tsconfig.json
// without the library dom: "types": ["@agent-runner/middleware/globals"].
declare const console: Record<"debug" | "log" | "info" | "warn" | "error" | "trace", (...values: unknown[]) => void>;
