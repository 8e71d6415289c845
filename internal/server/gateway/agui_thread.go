package gateway

import (
	"context"
	"crypto/sha256"
	"encoding/base32"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/host/api"
	"github.com/agent-runner/agent-runner/internal/agent/journal"
	"github.com/agent-runner/agent-runner/internal/server/httpapi"
	"github.com/agent-runner/agent-runner/internal/server/runs"
	"github.com/agent-runner/agent-runner/internal/store"
)

// maxThreadID limits a client's threadId, in bytes.
const maxThreadID = 200

// threadEntry is the key in a thread's metadata for the threadId of the client that created the
// thread.
const threadEntry = "agui_thread"

var (
	storedThread = regexp.MustCompile(`^thr_[A-Za-z0-9_-]{1,80}$`)
	// sentMessage matches the ids of messages that a run has sent to a client; see package agui.
	sentMessage = regexp.MustCompile(`_(run_[A-Za-z0-9-]+)_[0-9]+(_reasoning)?$`)
)

// threadOf returns the thread of a client with a threadId. This is the stored thread with that id. If
// there is none, it is the thread that belongs to the tenant, the end user, the agent and the
// threadId, which threadOf creates if it does not exist. A threadId of one tenant, end user or agent
// never selects a thread of another one. agent is the name of the client's agent, and ref is the
// reference to the agent in the request.
func threadOf(ctx context.Context, c *httpapi.Caller, agent, ref, id string) (*store.Thread, error) {
	if len(id) > maxThreadID || !utf8.ValidString(id) || strings.ContainsFunc(id, unicode.IsControl) {
		return nil, httpapi.NewProblem(api.CodeInvalid,
			"threadId has control characters or more than %d bytes", maxThreadID)
	}
	if storedThread.MatchString(id) {
		if h, err := c.Thread(ctx, id); !errors.Is(err, journal.ErrNoThread) {
			return h, err
		}
	}
	owner := c.Tenant.ID()
	if c.Token != nil {
		owner += "\x00" + c.Token.Subject
	}
	sum := sha256.Sum256(fmt.Appendf(nil, "agui\x00%s\x00%s\x00%s", owner, agent, id))
	h := &store.Thread{
		ID:    "thr_" + strings.ToLower(base32.StdEncoding.WithPadding(base32.NoPadding).EncodeToString(sum[:20])),
		Agent: ref,
	}
	known, err := c.Thread(ctx, h.ID)
	if !errors.Is(err, journal.ErrNoThread) {
		return known, err
	}
	if err := c.CheckNewThread(ctx, h); err != nil {
		return nil, err
	}
	h.Metadata = map[string]string{threadEntry: id}
	if err := c.CheckRunQuotas(ctx); err != nil { // the thread would have no run
		return nil, err
	}
	created, err := c.Tenant.CreateThread(ctx, h)
	if errors.Is(err, store.ErrExists) { // a concurrent request came first
		return c.Thread(ctx, h.ID)
	}
	return created, err
}

// turnOf returns the place in a thread of the run for a client's conversation, and the new messages
// of the conversation. A message is known if the thread has its id, or if a run of the thread has
// sent it. The new messages are those after the last known message. If there are none, the run
// repeats the last message of the user. If no message is known, all messages continue the thread.
func turnOf(h *store.Thread, stored []store.ThreadMessage, conversation []abi.Message) (*runs.Turn, []abi.Message) {
	ids, ends := map[string]int{}, map[string]int{} // the positions after messages and runs
	for i := range stored {
		ids[stored[i].ID] = i + 1
		ends[stored[i].Run] = i + 1
	}
	base, next := 0, 0
	for i := range conversation {
		m := &conversation[i]
		at := ids[m.ID]
		if sent := sentMessage.FindStringSubmatch(m.ID); at == 0 && sent != nil {
			at = ends[sent[1]]
		}
		if at > 0 || m.Role == abi.RoleTool && next == i && i > 0 { // results follow a known message
			base, next = max(base, at), i+1
		}
	}
	if next == len(conversation) {
		for next > 0 && (conversation[next-1].Role != abi.RoleUser || ids[conversation[next-1].ID] == 0) {
			next--
		}
		next = max(next-1, 0)
		base = max(ids[conversation[next].ID]-1, 0)
	} else if next == 0 {
		base = len(stored)
	}
	turn := &runs.Turn{Thread: h.ID}
	if base < len(stored) {
		turn.Rewinds, turn.Messages, turn.Version = true, base, h.Version
	}
	return turn, conversation[next:]
}
