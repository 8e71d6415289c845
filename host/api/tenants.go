package api

import "time"

// A Tenant describes a tenant with its quota and policy.
type Tenant struct {
	ID      string      `json:"id"`
	Name    string      `json:"name"`
	Quota   TenantQuota `json:"quota"`
	Policy  Policy      `json:"policy"`
	Created time.Time   `json:"created"`
	Updated time.Time   `json:"updated"`
}

// A TenantQuota limits a tenant. Fields without a default are unlimited when 0.
type TenantQuota struct {
	ConcurrentRuns     int64 `json:"concurrent_runs,omitempty" minimum:"0" doc:"Maximum number of runs in progress."`
	RunsPerDay         int64 `json:"runs_per_day,omitempty" minimum:"0" doc:"Maximum number of runs that start on a day (UTC)."`
	TokensPerDay       int64 `json:"tokens_per_day,omitempty" minimum:"0" doc:"Maximum number of tokens per day, prompts and completions together. Runs in progress are not interrupted."`
	FuelPerDay         int64 `json:"fuel_per_day,omitempty" minimum:"0" doc:"Maximum fuel of modules per day. Runs in progress are not interrupted."`
	Modules            int64 `json:"modules,omitempty" minimum:"0" doc:"Maximum number of stored modules."`
	StorageBytes       int64 `json:"storage_bytes,omitempty" minimum:"0" doc:"Maximum size of stored modules, agents and secrets."`
	ValueBytes         int64 `json:"value_bytes,omitempty" minimum:"0" doc:"Maximum size of the modules' durable values. Default: 67108864."`
	JournalBytes       int64 `json:"journal_bytes,omitempty" minimum:"0" doc:"Maximum size of the journals of stored runs. A run in progress that exceeds it ends. Default: 4294967296."`
	JournalBytesPerDay int64 `json:"journal_bytes_per_day,omitempty" minimum:"0" doc:"Maximum number of bytes that runs write to their journals per day (UTC). A run in progress that exceeds it ends. Default: 2147483648."`
	MemoryBytes        int64 `json:"memory_bytes,omitempty" minimum:"0" doc:"Maximum memory that one server holds for all runs in progress. Default: a quarter of the server's memory for runs."`
	UploadBytes        int64 `json:"upload_bytes,omitempty" minimum:"0" doc:"Maximum size of one module."`
	InputBytes         int64 `json:"input_bytes,omitempty" minimum:"0" doc:"Maximum size of a request that starts or resumes a run, up to 8388608. Default: 1048576."`
	Requests           int64 `json:"concurrent_requests,omitempty" minimum:"0" doc:"Maximum number of concurrent requests on one server, including event streams. Default: 4096."`
	RequestsPerMin     int64 `json:"requests_per_minute,omitempty" minimum:"0" doc:"Maximum number of requests per minute on one server."`
	Threads            int64 `json:"threads,omitempty" minimum:"0" doc:"Maximum number of threads. Default: 100000."`
	ThreadMessages     int64 `json:"thread_messages,omitempty" minimum:"0" doc:"Number of messages of a thread at which no more runs begin in it. Default: 10000."`
	ThreadBytes        int64 `json:"thread_bytes,omitempty" minimum:"0" doc:"Size of the messages of a thread, with the input of a run, above which the run does not begin. Default: 16777216."`
	QueuedRuns         int64 `json:"queued_runs,omitempty" minimum:"0" doc:"Maximum number of runs that wait in the queue of one thread. Default: 16."`
}

// A Policy holds what the operator allows a tenant's agents and modules to use.
type Policy struct {
	Grants    []string `json:"grants,omitempty" doc:"Grants that the tenant's agents may give to modules, as in agent.yaml. A trailing * matches anything: read:*, tool:*. Default: read:*, which cannot affect other tenants."`
	Models    []string `json:"models,omitempty" doc:"Models that the tenant's agents may use. A trailing * matches anything. Default: any, with the tenant's own credentials."`
	Params    []string `json:"params,omitempty" doc:"Additional model parameters that the tenant's agents and modules may set. Parameters that cannot raise the price are always allowed. A trailing * matches anything. Default: none if models is set, else any."`
	Hosts     []string `json:"hosts,omitempty" doc:"Hosts that modules and MCP servers may reach, such as api.example.com or *.example.com. Default: none."`
	Upstreams []string `json:"upstreams,omitempty" doc:"Hosts that routes of the tenant's gateway may send requests to, as in hosts. Default: any with a public address."`
	MaxSteps  int      `json:"max_steps,omitempty" minimum:"0" maximum:"100000" doc:"Maximum number of steps per run, up to 100,000. Default: 1,000."`
}

// A CreateTenant is a request that creates a tenant.
type CreateTenant struct {
	ID     string       `json:"id" pattern:"^[a-z0-9][a-z0-9._-]{0,62}$" example:"acme" doc:"The tenant's id. It cannot be changed later."`
	Name   string       `json:"name,omitempty" maxLength:"200" doc:"The display name. Default: the id."`
	Quota  *TenantQuota `json:"quota,omitempty" doc:"The tenant's quota. Default: the default of each field."`
	Policy *Policy      `json:"policy,omitempty"`
}

// A TenantUpdate is a request that changes a tenant. Nil fields do not change.
type TenantUpdate struct {
	Name   *string      `json:"name,omitempty" maxLength:"200"`
	Quota  *TenantQuota `json:"quota,omitempty" doc:"Replaces the whole quota."`
	Policy *Policy      `json:"policy,omitempty" doc:"Replaces the whole policy."`
}

// A Usage is a page of a tenant's usage.
type Usage struct {
	Currency   string     `json:"currency,omitempty" doc:"The currency of costs, such as USD. Absent if the operator has set no prices."`
	Total      UsageRow   `json:"total" doc:"The sum of the rows of all pages. Its day, agent and module are empty."`
	Rows       []UsageRow `json:"rows" nullable:"false" doc:"By day, agent and module."`
	Kept       StoredSize `json:"kept" doc:"The tenant's current storage, independent of the days."`
	NextCursor string     `json:"next_cursor,omitempty" doc:"The cursor of the next page. Absent on the last page. Cursors are opaque and do not expire."`
}

// A UsageRow holds the usage of an agent, or of one of its modules, on one day.
type UsageRow struct {
	Day              string  `json:"day,omitempty" doc:"The day (UTC)."`
	Agent            string  `json:"agent,omitempty"`
	Module           string  `json:"module,omitempty" doc:"The module's digest; empty for the agent itself."`
	Runs             int64   `json:"runs" doc:"Number of runs that started."`
	PromptTokens     int64   `json:"prompt_tokens"`
	CompletionTokens int64   `json:"completion_tokens"`
	Fuel             int64   `json:"fuel" doc:"Fuel that the module used."`
	WallMS           int64   `json:"wall_ms" doc:"Duration of the runs, or of the module's hooks, in milliseconds."`
	Calls            int64   `json:"calls" doc:"Number of calls of the model, or of the module's hooks."`
	Cost             float64 `json:"cost" doc:"What the tokens cost, in units of the currency."`
	JournalBytes     int64   `json:"journal_bytes" doc:"Bytes that the runs wrote to the journal. Up to 65536 bytes of a run in progress are counted late."`
}

// A StoredSize holds the current sizes of a tenant's stored data, as its quotas count them.
type StoredSize struct {
	JournalBytes int64 `json:"journal_bytes" doc:"Size of the journals of the tenant's runs, in bytes."`
}

// A Key is an API key of a tenant.
type Key struct {
	ID      string     `json:"id"`
	Tenant  string     `json:"tenant" doc:"The tenant that owns the key."`
	Name    string     `json:"name"`
	Scopes  []string   `json:"scopes" nullable:"false"`
	Role    string     `json:"role,omitempty" doc:"The role that gives the key its scopes; absent if they were given one by one."`
	Created time.Time  `json:"created"`
	Expires *time.Time `json:"expires,omitempty"`
	Revoked *time.Time `json:"revoked,omitempty"`
	Used    *time.Time `json:"used,omitempty" doc:"The time of the last use, with a resolution of one minute."`
	Secret  string     `json:"secret,omitempty" doc:"The key itself. It is returned only once: the server does not store it."`
}

// A CreateKey is a request that creates a key.
type CreateKey struct {
	Name             string   `json:"name" minLength:"1" maxLength:"200" example:"ci" doc:"The purpose of the key."`
	Scopes           []string `json:"scopes,omitempty" maxItems:"40" doc:"The key's scopes. Default, without a role: all scopes of the tenant; for a key that a tenant creates, the scopes of the creating key."`
	Role             string   `json:"role,omitempty" maxLength:"40" example:"approver" doc:"A role instead of scopes: owner, developer, approver or viewer; for the operator's keys, admin or support."`
	ExpiresInSeconds int64    `json:"expires_in_seconds,omitempty" minimum:"1" maximum:"315360000" doc:"Seconds until it expires. Default: never."`
}

// A Secret describes a secret without its value.
type Secret struct {
	Name    string    `json:"name"`
	Updated time.Time `json:"updated"`
}

// A Block prevents calls of a module by all tenants.
type Block struct {
	Digest  string    `json:"digest"`
	Reason  string    `json:"reason"`
	Created time.Time `json:"created"`
}
