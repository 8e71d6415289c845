package httpapi

import (
	"cmp"
	"net"
	"net/http"

	"github.com/agent-runner/agent-runner/internal/store"
)

// An Actor is the sender of a request, as records and messages name it.
type Actor struct {
	Kind string // KindKey, KindToken or KindUser
	ID   string // the id of the key or token, or the subject of the person
	Name string // a name for people; for a token, its subject; optional
}

// KindKey is the kind of an actor that uses an API key.
const KindKey = "key"

// String returns the kind and the id, as audit logs name the actor.
func (a Actor) String() string { return a.Kind + ":" + a.ID }

// By returns a description of the caller for records of changes: "key" and the id of a key, "token" and
// the subject of a token, or "user" and the e-mail address, name or subject of a person.
func (c *Caller) By() string {
	if c.Actor.Kind == KindKey {
		return c.Actor.label()
	}
	return c.Actor.Kind + " " + cmp.Or(c.Actor.Name, c.Actor.ID)
}

// label returns the actor for messages.
func (a Actor) label() string { return a.Kind + " " + a.ID }

// storeActor returns the actor for records of changes that the request makes.
func (c *Caller) storeActor(r *http.Request) *store.Actor {
	return &store.Actor{
		Tenant:  c.Key.Tenant,
		ID:      c.Actor.String(),
		Name:    c.Actor.Name,
		Address: clientAddress(r),
		Request: RequestID(r.Context()),
	}
}

// clientAddress returns the IP address of the client, or of the proxy in front of the server.
func clientAddress(r *http.Request) string {
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		return ""
	}
	return host
}
