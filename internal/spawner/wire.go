package spawner

// An order is the message that a spawner reads from its standard input when it starts. It is trusted, because the
// server sends it before the server accepts any connection.
type order struct {
	Programs []program
}

// A program is a command that the spawner may start, with all paths and variables resolved.
type program struct {
	Path    string
	Args    []string
	Dir     string
	Env     []string
	Read    []string
	Write   []string
	Connect []uint16

	Unconfined bool
}

// The operations of a request.
const (
	opStart     = "start"
	opTerminate = "terminate"
	opKill      = "kill"
)

// A request is one packet from the server. A start request has three descriptors, the standard streams of the
// command; other requests have none. The spawner does not trust the server that sends the request.
type request struct {
	Op      string
	ID      uint64 // the sender's number for the process
	Program int    // index in order.Programs of the program to start; for opStart only
}

// A reply is one packet from the spawner. The spawner answers a start request with a reply that has
// Started or Error. If it started the process, it sends another reply with Ended later.
type reply struct {
	ID      uint64
	Started bool
	Ended   bool
	PID     int
	Error   string // why the process was not started, or how it ended if its exit status is not 0
}

const (
	maxPacket    = 4 << 10
	maxProcesses = 256 // maximum number of processes that one spawner runs at once
	streams      = 3   // number of descriptors of a start request
)
