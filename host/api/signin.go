package api

// A SignIn says how a browser signs in.
type SignIn struct {
	Name string `json:"name,omitempty" doc:"The identity provider's name. Absent if the server has none."`
	URL  string `json:"url,omitempty" doc:"The address to open, with return_to."`
}

// A Me describes the sender of a request.
type Me struct {
	Kind    string     `json:"kind" doc:"key, or user for a person."`
	ID      string     `json:"id" doc:"The id of the key, or the subject of the person."`
	Name    string     `json:"name,omitempty" doc:"The name of the key, or the name or e-mail address of the person."`
	Tenant  string     `json:"tenant" doc:"The tenant of the request; empty for the operator."`
	Role    string     `json:"role,omitempty"`
	Scopes  []string   `json:"scopes" nullable:"false"`
	Tenants []MyTenant `json:"tenants" nullable:"false" doc:"The tenants that the person can choose with the header X-Tenant."`
}

// A MyTenant is a tenant in which the sender of a request has a role.
type MyTenant struct {
	Tenant string `json:"tenant" doc:"The tenant; empty for the operator, which X-Tenant names @operator."`
	Role   string `json:"role,omitempty"`
}
