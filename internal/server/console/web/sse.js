// SSE parses server-sent events that arrive in pieces. The browser's EventSource is not used, because
// it cannot send the key.
export class SSE {
  #rest = "";
  #event = { id: "", kind: "", data: [] };

  // push takes a piece and returns the events that it completes.
  push(piece) {
    const out = [];
    const lines = (this.#rest + piece).split("\n");
    this.#rest = lines.pop();
    for (let line of lines) {
      if (line.endsWith("\r")) line = line.slice(0, -1);
      if (line === "") {
        if (this.#event.data.length > 0) out.push({ id: this.#event.id, kind: this.#event.kind || "message", data: this.#event.data.join("\n") });
        this.#event = { id: this.#event.id, kind: "", data: [] };
        continue;
      }
      const colon = line.indexOf(":");
      if (colon === 0) continue;
      const name = colon < 0 ? line : line.slice(0, colon);
      const value = colon < 0 ? "" : line.slice(colon + 1).replace(/^ /, "");
      if (name === "id") this.#event.id = value;
      else if (name === "event") this.#event.kind = value;
      else if (name === "data") this.#event.data.push(value);
    }
    return out;
  }
}
