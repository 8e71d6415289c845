package agentmodel

import (
	"fmt"
	"regexp"
	"strings"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/internal/gateway/rawjson"
)

// Fields of the Responses API with which a request continues a stored conversation.
const (
	fieldPrevious     = "previous_response_id"
	fieldConversation = "conversation"
)

var (
	threadID     = regexp.MustCompile(`^thr_[A-Za-z0-9_-]{1,80}$`)
	responseForm = regexp.MustCompile(`^resp_([A-Za-z0-9_-]{1,80})(\.[0-9]{1,19})?$`)
)

// readStored reads the fields with which a request continues a stored conversation. It returns the
// body without these fields, because the codec rejects them.
func (r *Request) readStored(body []byte) ([]byte, error) {
	if !r.protocol.stores {
		return body, nil
	}
	root, err := rawjson.Parse(body)
	if err != nil || !root.IsObject() {
		return body, nil //nolint:nilerr // the codec reports it
	}
	change := map[string][]byte{}
	if v := root.Get(fieldPrevious); !v.IsNull() {
		change[fieldPrevious] = nil
		form := responseForm.FindStringSubmatch(v.String())
		if form == nil {
			return nil, badf(fieldPrevious, "%s is %.100s; want the id of a response of this server", fieldPrevious, v.Text)
		}
		r.Previous, r.echo = runPrefix+form[1], append(r.echo, abi.Field{Name: fieldPrevious, Value: v.Text})
	}
	if v := root.Get(fieldConversation); !v.IsNull() {
		change[fieldConversation] = nil
		if v.IsObject() {
			v = v.Get("id")
		}
		if r.Thread = v.String(); !threadID.MatchString(r.Thread) {
			return nil, badf(fieldConversation, "%s is no thread; POST /v1/threads creates one", fieldConversation)
		}
		r.echo = append(r.echo, abi.Field{Name: fieldConversation, Value: []byte(`{"id":"` + r.Thread + `"}`)})
	}
	if r.Previous != "" && r.Thread != "" {
		return nil, badf(fieldPrevious, "%s and %s are mutually exclusive", fieldPrevious, fieldConversation)
	}
	e := rawjson.Edits{Doc: body}
	e.Members(root, change)
	return e.Apply(), nil
}

// SetThread sets the thread that the request continues to id, the value of a header. It fails with an
// [*Error] if id does not have the form of a thread's id, or if the request itself names another
// conversation.
func (r *Request) SetThread(header, id string) error {
	switch {
	case !threadID.MatchString(id):
		return badf(header, "%s is no id of a thread; POST /v1/threads creates one", header)
	case r.Previous != "" || r.Thread != "" && r.Thread != id:
		return badf(header, "%s contradicts %s or %s of the request", header, fieldPrevious, fieldConversation)
	}
	r.Thread = id
	return nil
}

const runPrefix = "run_"

// responseID returns the ID of a response without the prefix of its protocol. In the Responses API,
// the ID refers to the run, so that a later request can continue the run's conversation.
func (r *Request) responseID(run string) string {
	if !r.protocol.stores {
		return run
	}
	id := strings.TrimPrefix(run, runPrefix)
	if r.After > 0 {
		id += fmt.Sprintf(".%d", r.After)
	}
	return id
}
