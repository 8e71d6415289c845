module github.com/agent-runner/agent-runner/examples/wasm-middlewares/trim-results/extism

go 1.26.0

require github.com/extism/go-pdk v1.1.3
