package httpapi

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"net/http"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/agent-runner/agent-runner/host/api"
	"github.com/agent-runner/agent-runner/internal/store"
)

type (
	// ListInput is embedded in the inputs of lists.
	ListInput struct {
		CursorInput
		Limit int `query:"limit" default:"100" minimum:"1" maximum:"1000" doc:"Maximum number of rows. A page of large rows has fewer."`
	}
	// LongListInput is embedded in the inputs of lists that most callers read completely.
	LongListInput struct {
		CursorInput
		Limit int `query:"limit" default:"1000" minimum:"1" maximum:"1000" doc:"Maximum number of rows."`
	}
	// NameInput is embedded in the inputs of lists that can be filtered by name.
	NameInput struct {
		Name string `query:"name" maxLength:"100" doc:"Only rows whose name contains this text, in upper or lower case."`
	}
	// CursorInput is embedded in the inputs of lists with their own limit.
	CursorInput struct {
		Cursor string `query:"cursor" doc:"The next_cursor of the previous page. Default: the first page."`
	}
	// ListOutput is embedded in the outputs of lists.
	ListOutput struct {
		NextCursor string `json:"next_cursor,omitempty" doc:"The cursor of the next page. Absent on the last page. Cursors are opaque and do not expire."`
	}
)

// AboutLists documents paging for the routes of lists.
const AboutLists = `If more rows follow, the answer has a next_cursor: send it as cursor, with the same filters,
for the next page, until an answer has none. Rows that exist throughout are listed exactly once, whatever is added,
changed or deleted meanwhile. An invalid cursor is a problem: 400.`

// Page returns the page of a tenant's list that the input selects. It fails with a [*Problem] if the
// cursor is not one of this list.
func (in *CursorInput) Page(list ListName, tenant string, limit int) (store.Page, error) {
	p := store.Page{Limit: limit}
	if in.Cursor == "" {
		return p, nil
	}
	at, ok := decodeCursor(list, tenant, in.Cursor)
	if !ok {
		return p, NewParameterProblem(
			"cursor",
			"the cursor is not a next_cursor of this list; send it unchanged to the endpoint that returned it, with a key of the same tenant, or omit it to start at the first page",
		)
	}
	p.After = at
	return p, nil
}

// NewParameterProblem returns a problem that says what is wrong with the query parameter name. Its
// status is 400.
func NewParameterProblem(name, detail string) *Problem {
	p := NewProblem(api.CodeInvalid, "%s", detail)
	p.Status = http.StatusBadRequest
	p.Errors = []api.FieldError{{Location: "query." + name, Message: detail}}
	return p
}

// PositionAfter returns the position of name, the value of the deprecated parameter "after", or
// the cursor's position if name is empty. It fails if both are set.
func PositionAfter(cursor *store.Position, name string) (*store.Position, error) {
	switch {
	case name == "":
		return cursor, nil
	case cursor != nil:
		return nil, NewParameterProblem("after", "after and cursor are mutually exclusive; send only the cursor")
	}
	return &store.Position{Name: name}, nil
}

// SetNext sets the cursor of the next page. next is nil on the last page.
func (o *ListOutput) SetNext(list ListName, tenant string, next *store.Position) {
	o.NextCursor = NextCursor(list, tenant, next)
}

// NextCursor returns the cursor of the page that starts after the position next, or an empty string
// if next is nil.
func NextCursor(list ListName, tenant string, next *store.Position) string {
	if next == nil {
		return ""
	}
	return encodeCursor(list, tenant, next)
}

// A ListName names a list in its cursors.
type ListName string

// The lists that have pages.
const (
	ListRuns        ListName = "runs"
	ListAgents      ListName = "agents"
	ListRollouts    ListName = "rollouts"
	ListReplays     ListName = "replays"
	ListReplayRuns  ListName = "replay-runs"
	ListAliases     ListName = "aliases"
	ListAliasMoves  ListName = "alias-moves"
	ListModules     ListName = "modules"
	ListKeys        ListName = "keys"
	ListTokens      ListName = "tokens"
	ListSecrets     ListName = "secrets"
	ListUsage       ListName = "usage"
	ListTenants     ListName = "tenants"
	ListBlocks      ListName = "blocks"
	ListQuarantined ListName = "quarantine"
	ListMembers     ListName = "members"
	ListGroups      ListName = "groups"
	ListAudit       ListName = "audit"
	ListThreads     ListName = "threads"
	ListMessages    ListName = "messages" // followed by the thread
)

const (
	cursorVersion = 1
	cursorSum     = 8   // bytes of the checksum
	maxCursor     = 512 // characters of a cursor
)

// encodeCursor encodes a position in a list of a tenant as a cursor: base64url of the
// version, a checksum, the creation time in milliseconds as a varint, and the name. The
// checksum covers the list and the tenant, so that a cursor is valid only in its own list. It
// needs no secret, because a forged cursor selects a position in a list that its sender may
// read from the beginning.
func encodeCursor(list ListName, tenant string, at *store.Position) string {
	created := int64(0)
	if !at.Created.IsZero() {
		created = at.Created.UnixMilli()
	}
	position := append(binary.AppendVarint(nil, created), at.Name...)
	sum := sha256.Sum256([]byte(strings.Join([]string{string(list), tenant, string(position)}, "\x00")))
	b := append([]byte{cursorVersion}, sum[:cursorSum]...)
	return base64.RawURLEncoding.EncodeToString(append(b, position...))
}

// decodeCursor returns the position of a cursor that encodeCursor returned for the same
// list and tenant. It returns false for any other string.
func decodeCursor(list ListName, tenant, cursor string) (at *store.Position, ok bool) {
	if len(cursor) > maxCursor {
		return nil, false
	}
	b, err := base64.RawURLEncoding.DecodeString(cursor)
	if err != nil || len(b) < 1+cursorSum || b[0] != cursorVersion {
		return nil, false
	}
	position := b[1+cursorSum:]
	created, n := binary.Varint(position)
	if n <= 0 {
		return nil, false
	}
	at = &store.Position{Name: string(position[n:])}
	if created != 0 {
		at.Created = time.UnixMilli(created)
	}
	// Databases reject names that are not UTF-8 or contain a zero byte. Each position has only one
	// valid cursor.
	if !utf8.ValidString(at.Name) || strings.ContainsRune(at.Name, 0) || encodeCursor(list, tenant, at) != cursor {
		return nil, false
	}
	return at, true
}
