package journal

// An Actor is the originator of a change that an audit log records.
type Actor struct {
	Tenant string // the tenant with the actor's credentials
	// ID is the kind and the id of the actor, such as key:abcdefghij or user:248289761001.
	ID      string
	Name    string // a name for people, such as the name of a key or an e-mail address
	Address string // the IP address of the client
	Request string // the id of the request
}

// An Audit is a record for the audit log of a tenant that a journal adds with a change.
type Audit struct {
	Actor  Actor
	Action string // such as run.answer
	Target string // what the action changed, such as the id of a run
	Detail any    // encoded as a JSON object
}
