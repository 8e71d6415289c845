package api

import (
	"encoding/json"
	"time"
)

// A Module describes a stored module and its names.
type Module struct {
	Digest    string       `json:"digest" doc:"The SHA-256 of the content, as sha256:…. The content of a script includes its imports."`
	Kind      string       `json:"kind" enum:"wasm,script" doc:"The media type of the content."`
	SizeBytes int64        `json:"size_bytes" doc:"The size of the stored content, in bytes."`
	Names     []ModuleName `json:"names" nullable:"false"`
	Created   time.Time    `json:"created"`
	Blocked   string       `json:"blocked,omitempty" doc:"The operator's reason, if the module is blocked."`
	About     About        `json:"about"`
	Users     []ModuleUser `json:"users,omitempty" doc:"The agents that use the module in their newest version, or in one that an alias or an active rollout refers to, at most 100. Only if the module is requested by its name or digest, by a key that can read agents."`
}

// A ModuleUser is an agent that uses a module.
type ModuleUser struct {
	Agent    string   `json:"agent"`
	Newest   int64    `json:"newest" doc:"The agent's newest version."`
	Versions []int64  `json:"versions" nullable:"false" doc:"The versions that use the module, the newest first."`
	Aliases  []string `json:"aliases,omitempty" doc:"The aliases of these versions."`
}

// A ModuleName is a name and a version of a module.
type ModuleName struct {
	Name    string `json:"name"`
	Version string `json:"version"`
}

// About describes a module and its capabilities, as found when it was uploaded.
type About struct {
	Name         string          `json:"name,omitempty" doc:"The name that the module reports."`
	Version      string          `json:"version,omitempty"`
	Description  string          `json:"description,omitempty"`
	Transport    string          `json:"transport" doc:"The calling convention: native, extism or javascript."`
	Hooks        []string        `json:"hooks" nullable:"false" doc:"The hooks that the module implements."`
	Powers       []Power         `json:"powers" nullable:"false" doc:"The capabilities that the module uses."`
	Grants       []string        `json:"grants" nullable:"false" doc:"The grants that the module needs for all its capabilities."`
	Messages     string          `json:"messages" doc:"How the module receives the conversation: full, lazy or none."`
	ConfigSchema json.RawMessage `json:"config_schema,omitempty" doc:"The JSON Schema of the module's configuration."`
	Limits       ModuleLimits    `json:"limits" doc:"The default limits. An agent can set others."`
	Warnings     []string        `json:"warnings" nullable:"false" doc:"Warnings for users of the module."`
}

// A Power is a capability of a module.
type Power struct {
	Name  string `json:"name"`
	Does  string `json:"does" doc:"A description of the capability."`
	Grant string `json:"grant,omitempty" doc:"The grant that the capability needs. Without it, the host denies calls."`
}

// ModuleLimits holds the default limits of a module.
type ModuleLimits struct {
	MemoryBytes int64  `json:"memory_bytes" doc:"Maximum memory of one instance."`
	Fuel        int64  `json:"fuel" doc:"Maximum fuel per hook call."`
	RunFuel     int64  `json:"run_fuel" doc:"Maximum fuel per run, over all hooks."`
	Timeout     string `json:"timeout" doc:"Maximum time per hook call, without time spent in host calls."`
	InputBytes  int    `json:"input_bytes"`
	OutputBytes int    `json:"output_bytes"`
	HostCalls   int    `json:"host_calls" doc:"Maximum host calls per hook call."`
}

// A Progress is an event of an upload.
type Progress struct {
	// Stage is "receiving", "received", "waiting", "compiling" or "described".
	Stage  string `json:"stage"`
	Bytes  int64  `json:"bytes,omitempty"` // number of bytes received so far
	Digest string `json:"digest,omitempty"`
}
