package api

import "time"

// A Token gives an end user of a tenant access to agents for a short time.
type Token struct {
	ID       string         `json:"id"`
	Subject  string         `json:"subject" doc:"The end user, in the tenant's own terms."`
	Agents   []string       `json:"agents" nullable:"false"`
	Thread   string         `json:"thread,omitempty"`
	Threads  bool           `json:"threads,omitempty"`
	Answers  bool           `json:"answers,omitempty"`
	Metadata map[string]any `json:"metadata,omitempty"`
	Quota    TokenQuota     `json:"quota" doc:"The limits. Absent ones do not limit the token; the tenant's quotas always apply."`
	Used     TokenQuota     `json:"used" doc:"What the token's runs used so far."`
	Key      string         `json:"key" doc:"The id of the API key that created the token. The token is valid only as long as the key."`
	Created  time.Time      `json:"created"`
	Expires  time.Time      `json:"expires"`
	Secret   string         `json:"secret,omitempty" doc:"The token itself. It is returned only once: the server does not store it."`
}

// A TokenQuota holds the limits of a token, or the usage of its runs.
type TokenQuota struct {
	Runs   int64   `json:"runs,omitempty" minimum:"0" doc:"Runs that begin or are queued."`
	Tokens int64   `json:"tokens,omitempty" minimum:"0" doc:"Tokens of models, prompts and completions together. A run that exceeds them ends after the call of the model."`
	Cost   float64 `json:"cost,omitempty" minimum:"0" maximum:"1000000" doc:"The cost of these tokens, in units of the operator's currency."`
}

// A CreateToken is a request that creates a token.
type CreateToken struct {
	Subject   string         `json:"subject" minLength:"1" maxLength:"200" example:"user-42" doc:"The end user, in your own terms: the token shows only the runs and threads of this subject."`
	Agents    []string       `json:"agents" minItems:"1" maxItems:"20" example:"[\"clerk\"]" doc:"The agents, each as name, name@version or name@alias. Requests must name them exactly so."`
	Thread    string         `json:"thread,omitempty" pattern:"^(thr_[A-Za-z0-9_-]{1,80})?$" doc:"A thread of the subject. All runs must continue it."`
	Threads   bool           `json:"threads,omitempty" doc:"Allows to create threads, and gives access to all threads of the subject."`
	Answers   bool           `json:"answers,omitempty" doc:"Allows to answer interrupts, such as questions of gates. Results of the client's own tools are always allowed."`
	Metadata  map[string]any `json:"metadata,omitempty" doc:"The metadata of all runs, at most 4096 bytes of JSON. Requests with the token cannot set metadata."`
	Quota     TokenQuota     `json:"quota,omitempty"`
	ExpiresIn int64          `json:"expires_in_seconds,omitempty" minimum:"1" maximum:"86400" doc:"Seconds until it expires. Default: 900."`
}

// A DeletedTokens is the response to the deletion of an end user's tokens.
type DeletedTokens struct {
	Deleted int64 `json:"deleted"`
}

// A CORS lists the origins whose pages may use the tokens of a tenant.
type CORS struct {
	Origins []string `json:"origins" nullable:"false" maxItems:"50" example:"[\"https://app.example.com\"]" doc:"Each is https://host or https://host:port as browsers send it; http is allowed on localhost. In https://*.example.com the asterisk matches one label."`
}
