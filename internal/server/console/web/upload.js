// Uploads of modules. They use XMLHttpRequest, which reports how much was sent.
import { SSE } from "./sse.js";
import { authorization, Problem } from "./api.js";

const kinds = { wasm: "application/wasm", ts: "application/typescript", mts: "application/typescript", js: "application/javascript", mjs: "application/javascript", json: "application/vnd.extism.manifest+json" };

// accept lists the extensions of modules.
export const accept = Object.keys(kinds).map((k) => `.${k}`).join(",");

// kindOf returns a file's media type, or nothing if its extension is not that of a module.
export const kindOf = (name) => kinds[name.toLowerCase().split(".").pop()];

// upload sends a file and returns the module. onStage is called with a stage of the upload, and the
// part that was sent, from 0 to 1.
export function upload(file, { name, version, signal, onStage }) {
  const query = new URLSearchParams();
  if (name) query.set("name", name);
  if (version) query.set("version", version);
  return new Promise((resolve, reject) => {
    const request = new XMLHttpRequest();
    const sse = new SSE();
    let read = 0;
    let result;
    const readEvents = () => {
      for (const e of sse.push(request.responseText.slice(read))) {
        const data = JSON.parse(e.data);
        if (e.kind === "progress") onStage(data.stage, 1);
        else result = { kind: e.kind, data };
      }
      read = request.responseText.length;
    };
    request.open("PUT", `/v1/modules${query.size > 0 ? `?${query}` : ""}`);
    for (const [header, value] of Object.entries(authorization())) request.setRequestHeader(header, value);
    request.setRequestHeader("Accept", "text/event-stream");
    request.setRequestHeader("Content-Type", kindOf(file.name) ?? "application/octet-stream");
    request.upload.addEventListener("progress", (e) => onStage("sending", e.lengthComputable ? e.loaded / e.total : 0));
    request.addEventListener("progress", () => request.status === 200 && readEvents());
    request.addEventListener("error", () => reject(new Error("The upload was interrupted. Try again.")));
    request.addEventListener("abort", () => reject(new DOMException("canceled", "AbortError")));
    request.addEventListener("load", () => {
      if (request.status !== 200) return reject(new Problem(request.status, request.getResponseHeader("Retry-After"), parse(request.responseText)));
      readEvents();
      if (result?.kind === "module") return resolve(result.data);
      reject(result ? new Problem(result.data.status, null, result.data) : new Error("The server did not finish the upload. Try again."));
    });
    signal?.addEventListener("abort", () => request.abort());
    request.send(file);
  });
}

function parse(text) {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
