package journal

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
)

// A ThreadStart is the position in a thread at which a new run begins. A thread is a conversation
// in which each run continues the messages of the previous one.
type ThreadStart struct {
	Thread string // the thread's id
	// Version is the version of the thread's messages that the run has read. Create fails with
	// [ErrThreadChanged] if the thread has another version.
	Version int64
	// Messages is the number of the thread's first messages with which the run begins. The run's
	// log does not contain them: the journal adds them when it loads the run.
	Messages int
}

// A ThreadEnd is the change of a thread by a run that ended: Items replaces the messages of the
// thread from index From on.
type ThreadEnd struct {
	From  int
	Items []json.RawMessage
	// Title becomes the title of the thread if the thread has none. It may be empty.
	Title string
}

// Errors of a [Journal] about threads. Implementations may wrap them.
var (
	// ErrNoThread reports that the thread does not exist.
	ErrNoThread = errors.New("no such thread")
	// ErrThreadChanged rejects the creation of a run that has read an earlier version of its thread.
	ErrThreadChanged = errors.New("the thread has changed")
)

// A ThreadBusyError rejects the creation of a run on a thread that has an unfinished or queued run.
type ThreadBusyError struct {
	Thread string
	Run    string // the run that is in progress, paused or ahead in the queue
	Status Status // its status
}

// Error names the thread and its unfinished run.
func (e *ThreadBusyError) Error() string {
	return fmt.Sprintf("thread %s has the unfinished run %s, which is %s", e.Thread, e.Run, e.Status)
}

// BaseLine returns the line before the first entry of the log of a run that continues a thread. The
// line is a change that adds the messages of the thread with which the run began.
func BaseLine(messages [][]byte) []byte {
	return []byte(`{"phase":0,"messages":{"from":0,"items":[` + string(bytes.Join(messages, []byte(","))) + "]}}\n")
}
