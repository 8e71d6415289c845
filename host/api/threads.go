package api

import (
	"encoding/json"
	"time"
)

// A Thread describes a conversation that runs continue, one after the other.
type Thread struct {
	ID          string            `json:"id"`
	Agent       string            `json:"agent,omitempty" doc:"The agent of runs that name none."`
	Title       string            `json:"title,omitempty" doc:"The title that a client set, or else the first user message, truncated."`
	Metadata    map[string]string `json:"metadata,omitempty"`
	Concurrency string            `json:"concurrency" enum:"reject,queue,cancel" doc:"What happens to a run while another run of the thread is unfinished, unless the run says otherwise: it is rejected (409), it waits in a queue, or it cancels the earlier runs."`
	Subject     string            `json:"subject,omitempty" doc:"The end user to whom the thread belongs. Empty for the tenant itself."`
	Parent      string            `json:"parent,omitempty" doc:"The thread that it was forked from. It may be deleted."`
	Messages    int64             `json:"messages" doc:"Number of messages."`
	Bytes       int64             `json:"bytes" doc:"Size of the messages, as the quota thread_bytes counts it."`
	Run         string            `json:"run,omitempty" doc:"The unfinished run, if there is one. Queued runs do not count."`
	Created     time.Time         `json:"created"`
	Updated     time.Time         `json:"updated" doc:"The last start or end of a run, or change of a field."`
}

// A CreateThread is a request that creates a thread.
type CreateThread struct {
	Agent       string            `json:"agent,omitempty" maxLength:"127" doc:"The agent of runs that name none: its name, name@version or name@alias."`
	Title       string            `json:"title,omitempty" maxLength:"200" doc:"Default: the first user message, truncated."`
	Metadata    map[string]string `json:"metadata,omitempty" doc:"At most 16 entries. Names have up to 64 bytes, values up to 512."`
	Concurrency string            `json:"concurrency,omitempty" enum:"reject,queue,cancel" doc:"What happens to a run while another run of the thread is unfinished. Default: reject."`
	Subject     string            `json:"subject,omitempty" maxLength:"200" doc:"The end user to whom the thread belongs."`
}

// A ThreadUpdate is a request that changes a thread. Nil fields do not change.
type ThreadUpdate struct {
	Agent       *string           `json:"agent,omitempty" maxLength:"127"`
	Title       *string           `json:"title,omitempty" maxLength:"200" doc:"An empty title makes the first user message the title."`
	Metadata    map[string]string `json:"metadata,omitempty" doc:"Replaces the metadata."`
	Concurrency *string           `json:"concurrency,omitempty" enum:"reject,queue,cancel"`
}

// A ForkThread is a request that creates a copy of a thread. If a field is empty, the copy has the
// value of the original.
type ForkThread struct {
	Message     string            `json:"message,omitempty" maxLength:"200" doc:"The id of the last message to copy. Default: all messages."`
	Run         string            `json:"run,omitempty" maxLength:"84" doc:"A finished run of the thread: copies the messages that the thread had at its end."`
	Agent       string            `json:"agent,omitempty" maxLength:"127" doc:"Default: the agent of the thread."`
	Title       string            `json:"title,omitempty" maxLength:"200" doc:"Default: the title of the thread."`
	Metadata    map[string]string `json:"metadata,omitempty" doc:"Default: the metadata of the thread."`
	Concurrency string            `json:"concurrency,omitempty" enum:"reject,queue,cancel" doc:"Default: that of the thread."`
}

// A Retention determines how long the data of a tenant is stored.
type Retention struct {
	ThreadDays int64 `json:"thread_days" minimum:"0" maximum:"36500" doc:"Days after which a thread is deleted that no run and no change of a field has touched. 0 keeps threads."`
}

// A ThreadRecord is a line of the export of a thread. Exactly one of the fields Thread, Run, Message
// and End is set.
type ThreadRecord struct {
	Thread  *Thread        `json:"thread,omitempty"`
	Run     *Run           `json:"run,omitempty"`
	Message *ThreadMessage `json:"message,omitempty"`
	End     bool           `json:"end,omitempty" doc:"The last line of a complete export."`
}

// A ThreadMessage is a message of a thread.
type ThreadMessage struct {
	ID       string          `json:"id" doc:"Unique in its thread."`
	Position int64           `json:"position" doc:"Counted from 0."`
	Run      string          `json:"run,omitempty" doc:"The run that added or last changed the message. It may be deleted."`
	Message  json.RawMessage `json:"message" doc:"The message, in OpenAI's format."`
}
