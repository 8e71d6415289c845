package api

import (
	"encoding/json"
	"time"
)

// An AuditRecord is an entry of a tenant's audit log.
type AuditRecord struct {
	ID        string          `json:"id" doc:"The number of the record in its log. Numbers have no gaps."`
	Time      time.Time       `json:"time"`
	Actor     string          `json:"actor" doc:"Who did it: key:ID, user:SUBJECT, operator, server or anonymous."`
	ActorName string          `json:"actor_name,omitempty" doc:"The name of the key, or the e-mail address of the person."`
	Address   string          `json:"address,omitempty" doc:"The IP address of the client, or of the proxy in front of the server. Absent for actions of the operator on a tenant."`
	Request   string          `json:"request,omitempty" doc:"The id of the request, as in X-Request-Id."`
	Action    string          `json:"action" example:"key.create"`
	Target    string          `json:"target" doc:"What the action changed, such as the id of a key."`
	Detail    json.RawMessage `json:"detail" doc:"An object, such as {\"before\":…,\"after\":…}."`
}
